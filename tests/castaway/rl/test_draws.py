"""Processes that draw unequally often hold the same source in the end, and never play the same episode."""

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from castaway.rl.draws import EvenDraws
from castaway.rl.failures import Task
from castaway.rl.ranks import Ranks
from castaway.rl.tasks import TaskSource
from tests.castaway.rl.test_tasks import score, source


class Side(Ranks):
    """One process of several, which is told what the others have."""

    def __init__(self, rank: int, count: int) -> None:
        super().__init__()
        self.rank, self.count = rank, count
        self.told: list[Any] = []

    def gather(self, value: Any) -> list[Any]:
        assert value == self.told[self.rank]
        return self.told


def step(sides: list[tuple[Side, TaskSource, EvenDraws]], counts: list[int]) -> list[list[Task]]:
    """Each process draws as often as `counts` says, and then all are evened out; returns what each of them plays."""
    drawn = [[draws.draw() for _ in range(count)] for (_, _, draws), count in zip(sides, counts, strict=True)]
    for side, _, draws in sides:
        side.told = counts
        draws.even()
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
        reports = [
            sides[rank][1].report(task, *score(task, outcomes)) for rank, mine in enumerate(drawn) for task in mine
        ]
        for _, own, _ in sides:
            own.learn(reports)


def test_alone_nothing_is_drawn_but_what_is_played() -> None:
    alone, plain = source(3), source(3)
    draws = EvenDraws(alone, Ranks())
    assert [draws.draw() for _ in range(9)] == [plain.draw() for _ in range(9)]
    draws.even()
    assert alone.state() == plain.state()
