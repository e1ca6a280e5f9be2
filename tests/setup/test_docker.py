"""The image for the MI300X, as far as it can be checked without Docker: syntax, sources, pins, packages."""

import importlib.util
import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

from castaway.rollout.vllm import INSTALL

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "setup" / "docker"
PYTHON, GLIBC = "3.12", "2_35"
"""Of the base image: Ubuntu 22.04 or newer."""


def of(keyword: str) -> list[str]:
    """The arguments of each such instruction, as Docker reads them: comments left out, continued lines joined."""
    lines = [line for line in (FOLDER / "Dockerfile").read_text("utf-8").splitlines() if not line.startswith("#")]
    whole = re.sub(r"\\\n", "", "\n".join(lines))
    return [line.removeprefix(keyword).strip() for line in whole.splitlines() if line.startswith(f"{keyword} ")]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "setup" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_it_runs_is_valid_in_the_shell() -> None:
    for command in of("RUN"):
        done = subprocess.run(["sh", "-n", "-c", command], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), command
        for code in re.findall(r'-c "([^"]+)"', command):
            compile(code, "Dockerfile", "exec")


def test_what_it_copies_and_names_is_there_and_not_ignored() -> None:
    lines = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    ignored = [line for line in lines if line[:1] not in ("#", "")]
    *sources, target = of("COPY")[0].split()
    named = [*sources, *(word for run in of("RUN") for word in re.findall(r"setup/\S+\.py", run))]
    assert target == "." and "setup/docker/link.py" in named
    needed = ["Makefile", "README.md", "pyproject.toml", "setup/install.py", "castaway/__init__.py", ".git"]
    for name in [*named, *needed, ".dvc/config"]:
        assert (ROOT / name).exists(), name
        assert not [pattern for pattern in ignored if fnmatch(name, pattern.removeprefix("**/"))], name
    # What a clone holds beside its files in git stays outside.
    assert {".venv", ".venv-vllm", "scratch", ".dvc/cache"} <= set(ignored)


def test_its_versions_are_those_of_the_locks_and_of_the_advice() -> None:
    image, _, pin = of("FROM")[0].partition("@")
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", pin)
    wheel = re.search(r"vllm==(\S+)`", INSTALL["rocm"][1])
    assert wheel and image in INSTALL["rocm"][1]
    assert image.rpartition(":v")[2] == wheel[1].partition("+")[0]
    checked = " ".join(of("RUN"))
    assert f"version('vllm') == '{wheel[1]}'" in checked
    torch = script("install").pinned("setup/torch.lock", "torch")[0].partition("+")[0]
    assert f"startswith('{torch}')" in checked
    assert set(re.findall(r"python(3\.\d+)", checked)) == {PYTHON}


def test_a_linked_package_counts_as_installed(tmp_path: Path) -> None:
    """With real packages of this environment: torch, a package of several modules, and one inside another's folder."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    names = ["torch", "packaging", "attrs"]
    link = [sys.executable, str(FOLDER / "link.py"), str(python)]
    subprocess.run([*link, *names], check=True)
    assert [script("install").installed(python, name) for name in names] == [version(name) for name in names]
    code = "import attr, attrs, packaging.version, importlib.util; print(importlib.util.find_spec('torch').origin)"
    origin = subprocess.check_output([python, "-I", "-c", code], text=True).strip()
    assert Path(origin).is_file() and Path(origin).is_relative_to(tmp_path)
    assert script("install").installed(python, "transformers") == ""
    refused = subprocess.run([*link, "nobody-has-this"], capture_output=True, text=True)
    assert refused.returncode == 1 and refused.stderr.startswith("nobody-has-this is not installed for ")


@pytest.mark.slow
def test_every_locked_package_has_a_file_for_the_image(tmp_path: Path) -> None:
    """Asks the package index that pip is configured for; nothing is installed."""
    install = script("install")
    config = subprocess.check_output([sys.executable, "-m", "pip", "config", "list"], text=True)
    command = [
        *(install.UV, "pip", "install", "--dry-run", "--target", str(tmp_path), "--no-deps", "--require-hashes"),
        *("--python-version", PYTHON, "--python-platform", f"x86_64-manylinux_{GLIBC}"),
        *("-r", "setup/requirements.lock"),
    ]
    environment = install.uv_environment(config, os.environ)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Would install \d{3} packages", done.stderr)
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == []
