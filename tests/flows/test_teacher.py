"""The driver serves the teacher for the stages that ask it, and for no others."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from castaway.config.errors import CastawayError
from castaway.config.sections import TeacherParams
from castaway.processes.hardware import Device, visible_variables
from castaway.processes.servers import free_port
from castaway.tasks.registry import read_params
from flows.plan import must_run, plan
from flows.teacher import Weights, on_gpus, plan_with, serving_for, uses_teacher, weights_of, what_to_serve
from tests.flows.conftest import Repository
from tests.flows.running import until
from tests.miniature import ROOT, make_clone

FAKE = ROOT / "tests/castaway/rollout/fake_vllm.py"


def teacher(**changes: object) -> TeacherParams:
    chosen = read_params(ROOT / "params.yaml").teacher
    return TeacherParams.model_validate({**chosen.model_dump(), "kind": "openai", **changes})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose stages were never run, and an environment that looks as if vLLM were in it."""
    root = tmp_path_factory.mktemp("clone")
    make_clone(root)
    python = root / ".venv-vllm/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    python.chmod(0o755)
    return root


def healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def serves(port: int) -> bool:
    """Whether a process of the stand-in for vLLM was told this port, and runs."""
    return any(
        str(port) in one.info["cmdline"] and one.info["status"] != psutil.STATUS_ZOMBIE
        for one in psutil.process_iter(["cmdline", "status"])
        if one.info["cmdline"]
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kind": "rules"}, "teacher.kind is rules, which needs no server"),
        ({"url": "http://far.example:8000/v1"}, "is not this host; start the server there by hand"),
        ({"url": "https://127.0.0.1:8000/v1"}, "is not this host"),
    ],
)
def test_what_cannot_be_served_here_is_told_before_anything_starts(changes: dict[str, str], sentence: str) -> None:
    with pytest.raises(CastawayError, match=sentence):
        what_to_serve(ROOT, Weights("good"), teacher(**changes))
    assert what_to_serve(ROOT, Weights("good", 16), teacher()).cache_gibibytes == 16


PPO = """\
stages:
  ppo:
    cmd: echo trained > data/ppo
    deps: [hull.txt]
    params: [teacher]
    outs: [data/ppo]
"""
JUDGED = f"""\
{PPO}  sft:
    cmd: echo tuned > data/sft
    deps: [hull.txt]
    outs: [data/sft]
"""


def test_it_is_not_started_for_what_dvc_restores(repository: Callable[[str], Repository]) -> None:
    made = repository(JUDGED)
    made.write("hull.txt", "oak")
    made.write("data/.gitkeep", "")
    assert must_run(made.root, "ppo")
    assert made.run("dvc", "repro").returncode == 0
    assert not must_run(made.root, "ppo")
    for path in (made.root / "dvc.lock", made.root / "data/ppo"):
        path.unlink()
    assert not must_run(made.root, "ppo")  # the run-cache has it
    port = free_port()
    with serving_for(made.root, "ppo", Weights("good"), teacher(url=f"http://127.0.0.1:{port}/v1"), {}):
        assert not healthy(port)
    shutil.rmtree(made.root / ".dvc/cache/files")
    assert must_run(made.root, "ppo")


TRAINED = f"""\
{PPO}  judge:
    cmd: echo judge > data/judge
    deps: [data/base]
    outs: [data/judge]
  base:
    cmd: echo base > data/base
    deps: [hull.txt]
    outs: [data/base]
  of_judge:
    cmd: echo better > data/of_judge
    deps: [data/judge]
    params: [teacher]
    outs: [data/of_judge]
"""


def test_a_judge_that_is_trained_here_is_made_before_it_is_asked(repository: Callable[[str], Repository]) -> None:
    root = repository(TRAINED).root

    def planned(*targets: str) -> dict[str, tuple[str, ...]]:
        return {step.address: step.upstream for step in plan_with(root, targets, "data/judge")}

    first = {"base": (), "judge": ("base",)}
    assert planned() == planned("ppo") == {**first, "ppo": ("judge",)} and list(planned())[:2] == ["base", "judge"]
    assert planned("of_judge") == {**first, "of_judge": ("judge", "judge")}
    assert planned("base") == {"base": ()}
    assert [one.address for one in plan_with(root, ["ppo"], "elsewhere")] == ["ppo"]


def test_params_name_what_is_served(root: Path) -> None:
    assert weights_of(teacher()) is None
    assert weights_of(teacher(kind="rules", weights="good")) is None
    assert weights_of(teacher(weights="good", adapter="data/judge/sft")) == Weights("good", adapter="data/judge/sft")
    (root / "data/good").mkdir(parents=True, exist_ok=True)
    assert what_to_serve(root, Weights("data/good"), teacher()).weights == str(root / "data/good")
    assert not uses_teacher(root, "dataset@marooned"), "it asks for texts alone, and none are wanted"
    assert uses_teacher(root, "ppo@marooned")


def test_on_a_gpu_it_takes_the_place_of_one(repository: Callable[[str], Repository]) -> None:
    steps = plan(repository(JUDGED).root, [])
    cuda = Device("cuda", "NVIDIA H100")
    root = Path.cwd()
    assert {step.address: step.device for step in on_gpus(root, steps, [cuda])} == {"ppo": "cuda", "sft": "cpu"}
    assert on_gpus(root, steps, []) == steps


def test_it_sees_the_gpu_of_its_stage_and_nobody_else_does(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    port = free_port()
    visible = {"CUDA_VISIBLE_DEVICES": "1"}
    params = teacher(url=f"http://127.0.0.1:{port}/v1")
    with serving_for(root, "sft@marooned", Weights("good"), params, {}):
        assert not healthy(port), "no stage asks it"
    with serving_for(root, "ppo@marooned", Weights("good"), params, visible):
        assert healthy(port)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"
        (server,) = [
            process
            for process in psutil.Process().children()
            if str(port) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
        ]
        assert server.environ()["CUDA_VISIBLE_DEVICES"] == "1"
    assert not healthy(port)


def test_a_stage_that_begins_while_it_starts_gets_a_gpu_of_its_own(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    found: list[dict[str, str]] = []

    def stopping() -> bool:  # asked while the server starts
        found.append(visible_variables("cuda", [0]))
        return True

    monkeypatch.setattr("flows.teacher.stopping", stopping)
    params = teacher(url=f"http://127.0.0.1:{free_port()}/v1")
    serving = serving_for(root, "ppo@marooned", Weights("sick"), params, {"CUDA_VISIBLE_DEVICES": "5"})
    with pytest.raises(KeyboardInterrupt), serving:
        pass
    assert found == [{"CUDA_VISIBLE_DEVICES": "4"}]


KILLED = """\
import os, signal
from pathlib import Path
from castaway.config.sections import TeacherParams
from castaway.tasks.registry import read_params
from flows import teacher
chosen = read_params(Path("params.yaml")).teacher
params = TeacherParams.model_validate({**chosen.model_dump(), "kind": "openai", "url": os.environ["URL"]})
def die():
    print("here", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
teacher.stopping = die  # asked while the server starts
with teacher.serving_for(Path.cwd(), "ppo@marooned", teacher.Weights("sick"), params, {}):
    pass
"""


@pytest.mark.slow
def test_it_ends_with_a_driver_that_is_killed_while_it_starts(root: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    variables = {**os.environ, "URL": url, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=root, env=variables, stdout=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGKILL
    assert "here\n" in done.stdout
    until(lambda: not serves(port), "the end of the server")
