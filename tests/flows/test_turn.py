"""Two drivers in one clone, and a driver beside `dvc repro`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flows import pipeline, turn
from flows.report import Step
from tests.flows.conftest import BASE_ALONE, Repository
from tests.flows.running import HELD, body_of, has_ended, times_begun, until


@pytest.fixture
def held(repository: Callable[[str], Repository]) -> Repository:
    made = repository(BASE_ALONE)
    made.write("stages/base.py", HELD)
    made.write("no", "a file where MLflow would need a folder: its tables take seconds to make")
    return made


def start(repository: Repository, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """A command in the background; its output is in `output`, after the name of its module."""
    return subprocess.Popen(
        [sys.executable, "-u", "-m", *arguments],
        cwd=repository.root,
        env=repository.environment(MLFLOW_TRACKING_URI=f"sqlite:///{repository.root}/no/mlflow.db", **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("first", [("flows", "pipeline"), ("dvc", "repro")])
def test_the_second_waits_for_the_first(held: Repository, first: tuple[str, ...]) -> None:
    one = start(held, *first)
    stage = body_of(held)
    two = start(held, "flows", "pipeline")
    assert two.stdout is not None
    line = next(line for line in two.stdout if "waiting for " in line or " waits for " in line)
    if first[0] == "flows":
        assert line == f"waiting for another driver in this clone (process {one.pid})\n"
    else:
        assert line == f"base  waits for another DVC in this clone (process {one.pid})\n"
    held.write("go", "")
    told = [process.communicate()[0] for process in (one, two)]
    assert [process.returncode for process in (one, two)] == [0, 0], told
    assert times_begun(held) == 1
    assert "base  Cached  " in told[1]
    assert has_ended(stage)


def test_who_uses_the_folders_of_a_step_is_read_from_dvcs_own_file(tmp_path: Path) -> None:
    step = Step("sft", (), "cpu", 1.0, ("data/sft",), ("data/base",))
    (tmp_path / ".dvc/tmp").mkdir(parents=True)
    assert turn.blocker(tmp_path, step) is None
    running = subprocess.Popen([sys.executable, "-c", "input()", "dvc"], stdin=subprocess.PIPE)
    own = {"pid": running.pid, "cmd": "dvc repro"}
    idle = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    other = {"pid": idle.pid, "cmd": "dvc repro"}  # killed, and its number given to another program
    gone = {"pid": 2**22 + 1, "cmd": "dvc repro"}
    for held, found in (
        ({"write": {f"{tmp_path}/data/sft": own}}, running.pid),
        ({"write": {f"{tmp_path}/data/base": own}}, running.pid),
        ({"write": {f"{tmp_path}/data": own}}, running.pid),
        ({"write": {f"{tmp_path}/data/sft": gone}}, None),
        ({"write": {f"{tmp_path}/data/sft": other}}, None),
        ({"write": {f"{tmp_path}/data/sft_more": own}}, None),
        ({"read": {f"{tmp_path}/data/base": [own]}}, None),
        ({"read": {f"{tmp_path}/data/sft/adapter": [gone, own]}}, running.pid),
    ):
        (tmp_path / ".dvc/tmp/rwlock").write_text(json.dumps(held))
        assert turn.blocker(tmp_path, step) == found, held
    (tmp_path / ".dvc/tmp/rwlock").write_text('{"write": {')
    assert turn.blocker(tmp_path, step) is None
    for process in (running, idle):
        process.communicate(b"\n")


def test_a_step_knows_what_it_reads(repository: Callable[[str], Repository]) -> None:
    made = repository(BASE_ALONE + "  sft:\n    cmd: x\n    deps: [data/base, hull.txt]\n    outs: [data/sft]\n")
    reads = {step.address: step.reads for step in pipeline.plan(made.root, [])}
    assert reads == {"base": (), "sft": ("data/base",)}


def test_a_lock_is_free_once_its_process_has_ended(tmp_path: Path) -> None:
    with turn.turn(tmp_path):
        assert (tmp_path / "scratch/driver.lock").read_text() == str(os.getpid())
        holder = "from flows.turn import turn; import pathlib\nwith turn(pathlib.Path()): print('mine', flush=True)"
        other = subprocess.Popen(
            [sys.executable, "-c", holder],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert other.stdout is not None
        assert other.stdout.readline() == f"waiting for another driver in this clone (process {os.getpid()})\n"
    assert other.communicate()[0] == "mine\n"
    until(lambda: other.poll() == 0)
