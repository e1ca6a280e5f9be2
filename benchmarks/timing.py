"""Clocks: wall and CPU seconds of several ways to do one thing, measured in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time


@dataclass(frozen=True)
class Seconds:
    """What something took."""

    wall: float
    cpu: float


def clocked(way: Callable[[], object]) -> Seconds:
    began = perf_counter(), process_time()
    way()
    return Seconds(perf_counter() - began[0], process_time() - began[1])


def timed(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Seconds]:
    """Median seconds of each after one round that warms up; in turns, so that a busy moment meets all of them."""
    for way in ways.values():
        way()
    found: dict[str, list[Seconds]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(clocked(way))
    return {
        name: Seconds(median(one.wall for one in all_), median(one.cpu for one in all_)) for name, all_ in found.items()
    }
