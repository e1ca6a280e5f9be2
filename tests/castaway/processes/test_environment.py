"""What is set for a stage, what is dropped, and the commit that it runs with."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from getpass import getuser
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest
from sqlalchemy import create_engine

from castaway.config.params import Params
from castaway.processes import environment
from castaway.processes.environment import AVX2, SILENT, STEADY, revision, settle
from castaway.processes.servers import free_port
from castaway.tasks.registry import read_params
from flows.__main__ import main
from flows.stage import base_of
from tests.castaway.command import castaway, refused
from tests.castaway.figures import save
from tests.miniature import commit
from tests.shipped import PARAMS, ROOT


def set_by(monkeypatch: pytest.MonkeyPatch, params: Params, address: str) -> dict[str, str]:
    """The variables that are set for a stage, where the user has set none."""
    monkeypatch.setattr(os, "environ", {})
    settle(params, base_of(params, address))
    return dict(os.environ)


@pytest.mark.parametrize("address", ["base@games", "ppo@marooned", "lone"])
def test_tiny_models_are_computed_alike_on_all_processors(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    found = set_by(monkeypatch, PARAMS, address)
    assert {**STEADY, **AVX2}.items() <= found.items()


def test_a_given_model_may_be_computed_with_all_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    params = read_params(ROOT / "profiles" / "smollm2.yaml")
    base = params.bases["smollm2"]
    everywhere = params.model_copy(update={"bases": {"smollm2": base.model_copy(update={"instructions": "avx2"})}})
    assert AVX2.items() <= set_by(monkeypatch, everywhere, "ppo@strictbot").items()
    found = set_by(monkeypatch, params, "ppo@strictbot")
    assert STEADY.items() <= found.items() and not AVX2.keys() & found.keys()


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"ONEDNN_MAX_CPU_ISA": "SSE41"})
    settle(PARAMS)
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "SSE41" and os.environ["ATEN_CPU_CAPABILITY"] == "avx2"


def test_a_revision_is_dirty_by_code_and_params_not_by_what_stages_write(tmp_path: Path) -> None:
    assert revision(tmp_path) == "none"
    for path in ("dvc.lock", "data/metrics.json", "params.yaml", "stages/sft.py"):
        save(tmp_path / path, "1\n")
    save(tmp_path / ".gitignore", "*.pyc\n")
    commit(tmp_path)
    clean = revision(tmp_path)
    assert len(clean) == 40
    for path in ("dvc.lock", "data/metrics.json", "data/new.json", "notes.txt", "stages/sft.pyc"):
        save(tmp_path / path, "2\n")
        assert revision(tmp_path) == clean, path
    # A new module is imported like any other, though git does not track it.
    save(tmp_path / "stages/new.py", "2\n")
    assert revision(tmp_path) == f"{clean}+dirty"
    (tmp_path / "stages/new.py").unlink()
    assert revision(tmp_path) == clean
    save(tmp_path / "params.yaml", "2\n")
    assert revision(tmp_path) == f"{clean}+dirty"


OF_USERS = ("GIT_CONFIG", "GIT_NO_REPLACE", "GIT_REPLACE", "GIT_INTERNAL")
OF_GIT_HOOKS = [
    name
    for name in (environment.git(ROOT, "rev-parse", "--local-env-vars") or "").split()
    if not name.startswith(OF_USERS)
]
OF_SCHEDULERS = ["RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
OF_MPI = [
    "PMI_SIZE",
    "PMI_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_RANK",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
]
OF_ACCELERATE = [
    "ACCELERATE_MIXED_PRECISION",
    "ACCELERATE_USE_CPU",
    "ACCELERATE_USE_FSDP",
    "ACCELERATE_USE_DEEPSPEED",
    "ACCELERATE_DYNAMO_BACKEND",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
    "ACCELERATE_TORCH_DEVICE",
]
OF_KUBERNETES = ["VLLM_PORT", "PREFECT_SERVER_API_PORT", "MLFLOW_PORT"]
FOR_OTHERS = {
    **dict.fromkeys(OF_GIT_HOOKS, "/elsewhere"),
    **dict.fromkeys([*OF_SCHEDULERS, *OF_MPI, *OF_ACCELERATE], "2"),
    **dict.fromkeys(OF_KUBERNETES, "tcp://10.0.0.1:8000"),
    "SHELL": "/bin/sh",
}


@pytest.mark.parametrize("name", FOR_OTHERS)
def test_what_is_meant_for_another_program_is_dropped(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, FOR_OTHERS[name])
    environment.prepare()
    assert name not in os.environ


@pytest.mark.parametrize("name", OF_SCHEDULERS)
def test_what_torchrun_says_is_kept(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "castaway")
    monkeypatch.setenv(name, "2")
    environment.prepare()
    assert os.environ[name] == "2"


@pytest.mark.parametrize("name", ["VLLM_PORT", "GIT_CONFIG_COUNT", "MLFLOW_TRACKING_URI", "OMP_PROC_BIND"])
def test_what_the_user_means_for_a_stage_is_kept(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "8000")
    environment.prepare()
    assert os.environ[name] == "8000"


def test_a_user_without_a_name_is_called_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)  # whom no file knows
    environment.prepare()
    assert getuser() == "54321"


@pytest.mark.parametrize("name", SILENT)
def test_no_tool_tells_others_what_is_done(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "another")
    environment.prepare()
    assert os.environ[name] == SILENT[name]


@pytest.mark.parametrize("command", [lambda: castaway("--version"), lambda: main([])])
def test_each_program_begins_with_it(monkeypatch: pytest.MonkeyPatch, command: Callable[[], object]) -> None:
    monkeypatch.setenv("PREFECT_SERVER_API_PORT", "tcp://10.0.0.1:4200")
    command()
    assert "PREFECT_SERVER_API_PORT" not in os.environ


def test_a_stage_runs_the_code_of_its_own_folder(tmp_path: Path) -> None:
    save(tmp_path / "dvc.yaml", "")
    save(tmp_path / "flows/__init__.py", "")
    save(tmp_path / "flows/__main__.py", "print('own')\n")
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "flows", "base@one"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("own\n", "")


def test_a_name_may_have_any_bytes(tmp_path: Path) -> None:
    environment.git(tmp_path, "init", "--quiet")
    Path(tmp_path, os.fsdecode(b"caf\xe9.py")).touch()
    assert environment.git(tmp_path, "ls-files", "-z", "--others") == os.fsdecode(b"caf\xe9.py\0")


def test_a_clone_has_the_bytes_of_the_repository_whatever_git_is_set_to(tmp_path: Path) -> None:
    for name in (".gitattributes", "params.yaml"):
        save(tmp_path / "one" / name, (ROOT / name).read_text("utf-8"))
    commit(tmp_path / "one")
    environment.git(tmp_path, "clone", "--quiet", "--config=core.autocrlf=true", "one", "two")
    assert (tmp_path / "two/params.yaml").read_bytes() == (ROOT / "params.yaml").read_bytes()


def test_a_server_of_this_host_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    environment.prepare()
    assert "NO_PROXY" not in os.environ
    monkeypatch.setenv("NO_PROXY", "intranet")
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    environment.prepare()
    assert os.environ["no_proxy"].split(",")[0] == "intranet"
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server, ThreadPoolExecutor(1) as beside:
        beside.submit(server.handle_request)
        assert httpx.get(f"http://127.0.0.1:{server.server_port}").status_code == 501
    with pytest.raises(httpx.ConnectError):
        httpx.get("http://elsewhere.example")


@pytest.mark.parametrize("command", ["castaway", "flows"])
def test_a_terminal_without_unicode_shows_something_else(command: str) -> None:
    """The error names what was typed."""
    words = ["params", "\N{SNOWMAN}.yaml"] if command == "castaway" else ["pipeline", "\N{SNOWMAN}"]
    module = "castaway.tools.cli.main" if command == "castaway" else "flows"
    variables = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run([sys.executable, "-m", module, *words], cwd=ROOT, env=variables, capture_output=True)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1) and b"?" in done.stderr


def test_a_clone_of_another_user_is_told_with_the_remedy_of_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.git(tmp_path, "init", "--quiet")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert refused(revision, tmp_path) == (
        f"the repository {tmp_path} belongs to another user, so git does not read it; "
        f"`git config --global --add safe.directory {tmp_path}` allows it"
    )


def test_the_store_lies_in_a_folder_whose_name_has_any_sign(tmp_path: Path) -> None:
    folder = tmp_path / "a%20b?c"
    folder.mkdir()
    create_engine(environment.store_of(folder)).connect().close()
    assert [path.name for path in folder.iterdir()] == ["mlflow.db"]
