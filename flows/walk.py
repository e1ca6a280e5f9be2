"""Goes through the steps of a plan: which may start now, in which order, and how many side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Protocol

import psutil

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tools import hardware
from flows import records
from flows.process import stopped_together
from flows.report import POOL, Outcome, Step


class Watcher(Protocol):
    """Is told of the start and the end of each step."""

    def started(self, step: Step) -> None:
        """A step has started."""

    def ended(self, outcome: Outcome) -> None:
        """A step has ended, or was skipped."""


@dataclass(frozen=True)
class Memory:
    """The memory of this host, in GiB, and what is known of the steps."""

    free: float = inf
    """What the steps may use together."""
    peaks: Mapping[str, float] = field(default_factory=dict)
    """The peak of each step in its last run, by address; of a step that is not here, nothing is known."""

    def has_room(self, step: Step, beside: Sequence[Step]) -> bool:
        """Whether a step may run beside others; alone it always may."""
        together = sum(self.peaks.get(one.address, 0.0) for one in (step, *beside))
        return not beside or step.address not in self.peaks or together <= self.free


def walk(
    steps: Sequence[Step],
    run: Callable[[Step, Sequence[int]], Outcome],
    cores: int = 1,
    gpus: int = 1,
    *,
    seconds: Mapping[str, float] | None = None,
    memory: Memory | None = None,
    watchers: Sequence[Watcher] = (),
) -> list[Outcome]:
    """Run the steps in threads; a step that depends on one that was not built is skipped.

    Args:
        steps: the steps, dependencies first.
        run: builds a step in its places: indices of its GPUs, or for a step on the CPU of its shares of the cores. A
            step that wants more places than there are gets all of them.
        cores: number of steps on the CPU that may run in parallel.
        gpus: number of steps on GPUs that may run in parallel, each on its own GPU.
        seconds: times that steps took before, by address; the step with the longest path to the end starts first.
        memory: a step does not start while there is no room for it beside those that run; None: there always is.
        watchers: are told of the start and end of each step.

    Returns:
        The outcomes, in the order of the steps.
    """
    outcomes: dict[str, Outcome] = {}
    running: dict[Future[Outcome], tuple[Step, list[int]]] = {}
    waiting = longest_first(steps, seconds or {})
    places = {"cpu": cores, "gpu": gpus, "pool": len(steps)}
    memory = memory or Memory()

    def end(outcome: Outcome) -> None:
        outcomes[outcome.step.address] = outcome
        for watcher in watchers:
            watcher.ended(outcome)

    with ThreadPoolExecutor(max_workers=max(1, sum(places.values()))) as pool, stopped_together():
        while waiting or running:
            for step in tuple(waiting):
                failed = [name for name in step.upstream if name in outcomes and not outcomes[name].built]
                unbuilt = {other.address for other in waiting} | {other.address for other, _ in running.values()}
                beside = [other for other, _ in running.values() if kind_of(other) != "pool"]
                own = places_for(step, running.values(), places)
                if failed:
                    waiting.remove(step)
                    end(Outcome(step, "Skipped", message=f"needs {failed[0]}"))
                elif own is not None and unbuilt.isdisjoint(step.upstream) and memory.has_room(step, beside):
                    waiting.remove(step)
                    for watcher in watchers:
                        watcher.started(step)
                    running[pool.submit(outcome_of, step, run, own)] = step, own
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                del running[future]
                end(future.result())
    return [outcomes[step.address] for step in steps]


def kind_of(step: Step) -> str:
    """Where a step is built: on the `cpu` or a `gpu` of this host, or by a `pool` of others, as many as there are."""
    return step.device if step.device == "cpu" else "pool" if step.device.startswith(POOL) else "gpu"


def places_for(step: Step, running: Collection[tuple[Step, list[int]]], places: Mapping[str, int]) -> list[int] | None:
    """The places that a step gets beside those that run; None while too few are free."""
    kind = kind_of(step)
    taken = {place for other, own in running if kind_of(other) == kind for place in own}
    free = [place for place in range(places[kind]) if place not in taken]
    wanted = 1 if kind == "pool" else min(step.processes, places[kind])
    return free[:wanted] if len(free) >= wanted else None


def outcome_of(step: Step, run: Callable[[Step, Sequence[int]], Outcome], places: Sequence[int]) -> Outcome:
    """The outcome that `run` returns, or a failed one if it raises an exception."""
    began = time.monotonic()
    try:
        return run(step, places)
    except CastawayError as error:
        message = str(error)
    except BaseException as error:  # otherwise the step would have no outcome, and its failure be hidden
        message = f"{step.address} failed: {type(error).__name__}: {error}"
    return Outcome(step, "Failed", time.monotonic() - began, message)


def longest_first(steps: Sequence[Step], seconds: Mapping[str, float]) -> list[Step]:
    """The steps, ordered by the time of the longest path from each to the end of the pipeline, longest first.

    Args:
        steps: the steps, dependencies first.
        seconds: times of steps by address. A step without a time counts as the average of the others; if there are no
            times at all, the number of steps on the path decides.
    """
    average = fmean(seconds.values()) if seconds else 1.0
    longest: dict[str, float] = {}
    for step in reversed(steps):
        after = [longest[other.address] for other in steps if step.address in other.upstream]
        longest[step.address] = seconds.get(step.address, average) + max(after, default=0.0)
    return sorted(steps, key=lambda step: -longest[step.address])


def recorded(root: Path, steps: Sequence[Step], figure: str) -> dict[str, float]:
    """A figure of each stage's last run, such as `seconds`, for the stages whose run record has it."""
    found: dict[str, float] = {}
    for step in steps:
        name, _, run = step.address.partition("@")
        value = records.read_json(records.record_path(root, run, name)).get(figure)
        if isinstance(value, int | float):
            found[step.address] = float(value)
    return found


def free_gibibytes() -> float:
    """The memory of this host that is free now, in GiB."""
    return float(psutil.virtual_memory().available) / 2**30


def cores(params: Params) -> int:
    """How many stages on the CPU may run in parallel, if each uses `threads` cores."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, mine // params.threads)


def gpus(steps: Sequence[Step]) -> int:
    """How many stages on GPUs may run in parallel; 0, without importing torch, if there is no such stage."""
    return max(1, len(hardware.visible_devices())) if any(kind_of(step) == "gpu" for step in steps) else 0
