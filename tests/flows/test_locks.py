"""Two drivers in one clone, and a driver beside `dvc repro`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flows import locks
from flows.steps import Step
from tests.flows.conftest import BASE_ALONE, WITHOUT_MLFLOW, Repository
from tests.flows.running import HELD, body_of, has_ended, times_begun


@pytest.fixture
def held(repository: Callable[[str], Repository]) -> Repository:
    made = repository(BASE_ALONE)
    made.write("stages/base.py", HELD)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("first", [("flows", "pipeline"), ("dvc", "repro")])
def test_the_second_waits_for_the_first(held: Repository, first: tuple[str, ...]) -> None:
    one = held.start(*first, **WITHOUT_MLFLOW)
    stage = body_of(held)
    two = held.start("flows", "pipeline", **WITHOUT_MLFLOW)
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
    assert locks.blocker(tmp_path, step) is None
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
        assert locks.blocker(tmp_path, step) == found, held
    (tmp_path / ".dvc/tmp/rwlock").write_text('{"write": {')
    assert locks.blocker(tmp_path, step) is None
    for process in (running, idle):
        process.communicate(b"\n")
