"""uv is handed what pip is configured with, and fetches CUDA only for a GPU."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.setup.test_docker import script as module_of

ROOT = Path(__file__).parents[2]
CONFIGURATION = """\
[global]
index-url = https://packages.example.org/simple
find-links =
    /srv/wheels
    /srv/more wheels.example.org/list
cert = /etc/example.pem
[install]
extra-index-url = file:///srv/one file:///srv/two
index-url = https://mirror.example.org/simple
"""


@pytest.fixture
def script() -> ModuleType:
    return module_of("install")


@pytest.fixture
def pip_config(tmp_path: Path) -> str:
    """A configuration file, as pip itself reads it back."""
    (tmp_path / "pip.conf").write_text(CONFIGURATION)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    environment |= dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"), str(tmp_path))
    environment |= {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "PIP_CERT": "/mine.pem"}
    return subprocess.check_output([sys.executable, "-m", "pip", "config", "list"], text=True, env=environment)


def test_uv_gets_what_pip_is_configured_with(script: ModuleType, pip_config: str) -> None:
    assert script.uv_environment(pip_config, {"PATH": "/bin"}) == {
        "PATH": "/bin",
        "UV_DEFAULT_INDEX": "https://mirror.example.org/simple",
        "UV_INDEX": "file:///srv/one file:///srv/two",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/srv/wheels,/srv/more,wheels.example.org/list",
        "SSL_CERT_FILE": "/mine.pem",
    }
    # A setting for uv itself holds.
    mine = {"UV_DEFAULT_INDEX": "https://mine.example.org/simple", "UV_TORCH_BACKEND": "cu130"}
    environment = script.uv_environment(pip_config, mine)
    assert environment["UV_DEFAULT_INDEX"] == mine["UV_DEFAULT_INDEX"] and "UV_TORCH_BACKEND" not in environment


def test_only_a_host_with_a_gpu_gets_cuda(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda path: False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert script.torch_backend({}) == "cpu"
    assert script.torch_backend({"UV_TORCH_BACKEND": "rocm7.2"}) == "rocm7.2"
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert script.torch_backend({}) == "auto"
    assert script.torch_backend({"UV_TORCH_BACKEND": "cpu"}) == "cpu"


def test_make_setup_runs_it_only_when_something_changed(tmp_path: Path) -> None:
    """A copy of the few files, so that no environment is touched: `make -n` tells what would run."""
    shutil.copytree(ROOT / "setup", tmp_path / "setup")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)

    def plan() -> str:
        return subprocess.check_output(["make", "-n", "setup"], cwd=tmp_path, text=True)

    assert "setup/install.py .venv" in plan()
    stamp = plan().split("touch ")[1].split()[0]
    (tmp_path / ".venv").mkdir()
    (tmp_path / stamp).touch()
    assert "install" not in plan()
    with (tmp_path / "setup" / "torch.lock").open("a") as lock:
        lock.write("# changed\n")
    assert "setup/install.py .venv" in plan()
