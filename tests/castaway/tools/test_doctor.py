"""The doctor asks servers, locks and file systems: what is there, absent, or of another kind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from castaway.config.sections import TeacherParams
from castaway.processes import servers
from castaway.processes.hardware import GIBIBYTE, Device
from castaway.tasks.registry import read_params
from castaway.tools import doctor
from castaway.tools.doctor import Finding, checked
from tests.miniature import make_clone, set_params
from tests.shipped import PARAMS, ROOT

H100 = Device("cuda", "NVIDIA H100", "sm_90", 80 * GIBIBYTE, 132)
LISTED = '{"object": "list", "data": [{"id": "teacher"}, {"id": "other"}]}'
URL = "http://127.0.0.1:9"
Answers = dict[str, tuple[int, str, str]]
"""Address to status, body, and the key that is needed."""


def check(examined: Callable[..., Finding], *given: Any) -> Finding:
    one = checked("subject", examined, *given)
    assert (one.state == "ok") == (not one.remedy) and "\n" not in one.detail
    return one


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """What servers answer; elsewhere nobody listens."""
    known: Answers = {}

    def get(url: str, headers: dict[str, str], **options: Any) -> httpx.Response:
        if url not in known:
            raise httpx.ConnectError("Connection refused")
        status, body, key = known[url]
        status = status if headers.get("authorization", "Bearer ") == f"Bearer {key}" else 401
        return httpx.Response(status, text=body, request=httpx.Request("GET", url))

    monkeypatch.setattr(httpx, "get", get)
    return known


def castaway(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "castaway.tools.cli.main", "doctor", *arguments, "--root", str(root)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_clone_is_examined_and_not_changed(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    make_clone(clone)
    before = {path: path.stat().st_mtime_ns for path in clone.rglob("*")}
    done = castaway(clone, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    subjects = ["packages", "MLflow", "Prefect", "device", "memory", "disk", "teacher"]
    assert [one["subject"] for one in json.loads(done.stdout)] == subjects
    assert {path: path.stat().st_mtime_ns for path in clone.rglob("*")} == before

    set_params(clone, {"teacher.kind": "openai", "teacher.url": f"{URL}/v1"})
    done = castaway(clone, PREFECT_API_URL=f"{URL}/api")
    assert done.returncode == 1 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("failed")] == ["Prefect", "teacher"]

    (clone / "params.yaml").write_text("seed: 1\n")
    assert "params.yaml" in castaway(clone).stdout.splitlines()[-2]


def test_packages_that_are_missing_or_of_another_version(tmp_path: Path) -> None:
    assert check(doctor.packages, ROOT).state == "ok"
    assert "does not exist" in check(doctor.packages, tmp_path).detail
    (tmp_path / "setup").mkdir()
    torch = doctor.version("torch").partition("+")[0]
    lock = f"""\
# A comment
torch=={torch}+rocm7.2 \\
    --hash=sha256:0
    # via castaway
elsewhere==3.0 ; sys_platform == 'nowhere' \\
    --hash=sha256:0
"""
    (tmp_path / doctor.LOCKS[0]).write_text(lock)
    for other, state, detail in (
        ("", "ok", "0 of 1 differ"),
        ("psutil==0.0.1 \\\n    --hash=sha256:0\n", "warning", f"psutil {psutil.__version__} instead of 0.0.1"),
        ("".join(f"nobody-has-{n}==1.0 \\\n" for n in range(6)), "failed", "6 of 7 are missing: nobody-has-0, "),
    ):
        (tmp_path / doctor.LOCKS[1]).write_text(other)
        one = check(doctor.packages, tmp_path)
        assert one.state == state and detail in one.detail


def test_a_device_is_there_or_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(doctor.device, tmp_path, PARAMS).detail.startswith("CPU for params.yaml; torch 2.")
    on_cuda = PARAMS.model_copy(update={"device": "cuda"})
    monkeypatch.setattr(doctor, "visible_devices", lambda: [H100])
    assert check(doctor.device, tmp_path, on_cuda).detail.startswith("NVIDIA H100 (cuda, sm_90, 80 GiB) for params")
    (tmp_path / "host.yaml").write_text("pins: {ppo: mi300x}\n")
    assert "ppo (host.yaml) is pinned to mi300x but" in check(doctor.device, tmp_path, PARAMS).detail
    monkeypatch.setattr(doctor, "visible_devices", list)
    (tmp_path / "host.yaml").unlink()
    assert "torch sees no GPU" in check(doctor.device, tmp_path, on_cuda).detail


def test_a_file_system_without_space_has_failed() -> None:
    large = read_params(ROOT / "profiles" / "llama3.1-8b.yaml")
    assert check(doctor.disk, ROOT, PARAMS).state == "ok"
    # 8 billion weights of two bytes: the base model and the merged one, in data and in the cache.
    assert "a build writes about 60.8" in checked("disk", doctor.disk, ROOT, large).detail
    # The file system of the kernel has no space at all.
    assert check(doctor.disk, Path("/proc"), PARAMS).state == "failed"


def served(model: str = "teacher", url: str = URL) -> TeacherParams:
    return PARAMS.teacher.model_copy(update={"kind": "openai", "url": f"{url}/v1", "model": model})


def test_a_teacher_serves_the_model_or_another(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(doctor.teacher, PARAMS.teacher).state == "ok"
    answers[f"{URL}/v1/models"] = 200, LISTED, ""
    assert check(doctor.teacher, served()).state == "ok"
    one = check(doctor.teacher, served("nobody"))
    assert one.state == "warning" and "lists teacher, other" in one.detail
    answers[f"{URL}/v1/models"] = 200, LISTED, "sesame"
    assert "CASTAWAY_TEACHER_KEY" in check(doctor.teacher, served()).remedy
    monkeypatch.setenv("CASTAWAY_TEACHER_KEY", "sesame")
    assert check(doctor.teacher, served()).state == "ok"


def test_a_teacher_that_is_absent_or_another_server(answers: Answers) -> None:
    one = check(doctor.teacher, served())
    assert one.state == "failed" and "castaway teacher serve" in one.remedy
    for status, body in ((500, "oops"), (200, "<html>"), (200, "[]"), (200, '{"data": [1]}')):
        answers[f"{URL}/v1/models"] = status, body, ""
        assert "no OpenAI-compatible server" in check(doctor.teacher, served()).detail


def test_a_silent_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "SERVER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert check(doctor.teacher, served(url=url)).state == "failed"


@pytest.mark.parametrize(
    ("examined", "variable", "path"),
    [(doctor.prefect, "PREFECT_API_URL", "/api"), (doctor.mlflow, "MLFLOW_TRACKING_URI", "")],
)
def test_a_server_is_asked_where_an_address_is_named(
    examined: Callable[[], Finding], variable: str, path: str, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers |= {f"{URL}{path}/health": (200, "OK", ""), f"http://ill{path}/health": (500, "", "")}
    states = {"": "ok", f"{URL}{path}/": "ok", f"http://ill{path}": "failed", f"http://nowhere{path}": "failed"}
    for address, state in states.items():
        monkeypatch.setenv(variable, address)
        assert check(examined).state == state, address
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://nobody@127.0.0.1/none")
    assert check(doctor.mlflow).state == "ok"
