"""Two processes make the update of one and stop together; several that draw unequally often hold the same source."""

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from castaway.processes.groups import torchrun_arguments
from castaway.processes.host_file import Torchrun
from castaway.rl.episode_source import EpisodeSource, Report, Task
from castaway.rl.ranks import EvenDraws, Ranks
from tests.castaway.rl.test_episode_source import score, source

ROOT = Path(__file__).parents[3]
TWO = ["-m", "torch.distributed.run", *torchrun_arguments(Torchrun(nproc_per_node=2))]
"""Two processes."""


def run(code: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *code]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process has trained."""
    place = tmp_path_factory.mktemp("alone") / "trained"
    done = run(["-m", "tests.castaway.rl.training", str(place)])
    assert done.returncode == 0, done.stderr[-3000:]
    return place


@pytest.mark.slow
@pytest.mark.parametrize("how", ["whole", "sharded"])
def test_two_processes_make_the_update_of_one(how: str, alone: Path, tmp_path: Path) -> None:
    """Sharded, a process keeps half of the base model, and joins the other's passes where it has fewer of its own."""
    done = run([*TWO, "--log-dir", str(tmp_path), "-m", "tests.castaway.rl.training", str(tmp_path / "trained"), how])
    assert done.returncode == 0, done.stderr[-3000:]
    for name in ("plain", "rich", "again"):
        files = [place.with_suffix(f".{name}") for place in (alone, tmp_path / "trained")]
        one, two = (torch.load(file, weights_only=False) for file in files)
        assert one["held"] == 1 and (two["held"] < 0.6 if how == "sharded" else two["held"] == 1)
        before = {key: value for key, value in one["history"][0].items() if key != "minibatches"}
        assert one["weights"].keys() == two["weights"].keys()
        for key, weight in one["weights"].items():
            apart = float((weight - two["weights"][key]).abs().max())
            assert apart < 5e-6, (name, key, apart)
        assert one["corrections"] == two["corrections"] > 0
        for mine, theirs in zip(one["history"], two["history"], strict=True):
            assert mine == pytest.approx(theirs, abs=1e-4)
        assert before["turns"] == 5 * 3 + 5


@pytest.mark.slow
@pytest.mark.parametrize("how", [["outage"], ["outage", "ahead"]])
def test_an_outage_in_one_process_stops_both_in_the_same_step(how: list[str]) -> None:
    done = run([*TWO, "-m", "tests.castaway.rl.training", *how])
    assert done.returncode == 0, done.stderr[-3000:]
    said = sorted(re.findall(r"(\d) stopped in step (\d+): nobody answers", done.stdout))
    assert [rank for rank, _ in said] == ["0", "1"] and len({step for _, step in said}) == 1
    assert int(said[0][1]) > 0


class Side(Ranks):
    """One process of several."""

    def __init__(self, rank: int, count: int) -> None:
        super().__init__()
        self.rank, self.count = rank, count


def step(sides: list[tuple[Side, EpisodeSource, EvenDraws]], counts: list[int]) -> list[list[Task]]:
    """Each process draws as often as `counts` says, and then all are evened out; returns what each of them plays."""
    drawn = [[draws.draw() for _ in range(count)] for (_, _, draws), count in zip(sides, counts, strict=True)]
    for _, _, draws in sides:
        draws.even(counts)
    return drawn


@given(st.integers(0, 10**6), st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=8))
def test_the_sources_stay_alike_and_hold_what_is_played(seed: int, steps: list[list[int]]) -> None:
    outcomes = Random(seed)
    sides = []
    for rank in range(3):
        side, own = Side(rank, 3), source(seed)
        sides.append((side, own, EvenDraws(own, side)))
    for counts in steps:
        drawn = step(sides, counts)
        states = [own.state() for _, own, _ in sides]
        assert states[0] == states[1] == states[2]
        held = [(task_id, seat) for task_id, seat, stages in states[0]["own"]["playing"] for _ in stages]
        assert sorted(held) == sorted(task for mine in drawn for task in mine)
        reports = [Report(task, *score(task, outcomes)) for mine in drawn for task in mine]
        for _, own, _ in sides:
            own.learn(reports)


def test_alone_nothing_is_drawn_but_what_is_played() -> None:
    alone, plain = source(3), source(3)
    draws = EvenDraws(alone, Ranks())
    assert [draws.draw() for _ in range(9)] == [plain.draw() for _ in range(9)]
    draws.even([draws.count])
    assert alone.state() == plain.state()
