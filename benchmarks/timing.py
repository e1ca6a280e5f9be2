"""Measures wall and CPU seconds of several ways to do the same thing, alternating between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

WINS = "Wins: "


class Seconds(NamedTuple):
    """Wall and CPU seconds."""

    wall: float
    cpu: float


def clocked(way: Callable[[], object]) -> Seconds:
    """The seconds of one call."""
    began = perf_counter(), process_time()
    way()
    return Seconds(perf_counter() - began[0], process_time() - began[1])


def winner(speeds: Mapping[str, float]) -> str:
    """A sentence that says who is fastest, the best of ours or the best of the others, and by how much."""
    best = [max((speed, name) for name, speed in speeds.items() if ("ours" in name) is side) for side in (True, False)]
    (slower, second), (faster, first) = sorted(best)
    return f"{WINS}{first}, {faster / slower:.2f} times as fast as {second}."


def timed(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Seconds]:
    """Median seconds of each way in `rounds` rounds, after one round to warm up.

    The ways alternate, so that other load on the machine affects all of them.
    """
    for way in ways.values():
        way()
    found: dict[str, list[Seconds]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(clocked(way))
    return {
        name: Seconds(median(one.wall for one in all_), median(one.cpu for one in all_)) for name, all_ in found.items()
    }
