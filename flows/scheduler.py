"""Which steps of a plan may start now, in which order, and how many side by side."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from math import inf
from statistics import fmean
from typing import Protocol

from castaway.processes import hardware
from castaway.processes.groups import stopped_together
from flows.build import outcome_of
from flows.steps import POOL, Outcome, Step


class Watcher(Protocol):
    """Is told of the start and the end of each step."""

    def started(self, step: Step) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...


@dataclass(frozen=True)
class Memory:
    """The memory of this host, in GiB, and what is known of the steps."""

    free: float = inf  # what the steps may use together
    peaks: Mapping[str, float] = field(default_factory=dict)
    """The peak of each step in its last run, by address; of a step that is not here, nothing is known."""

    def has_room(self, step: Step, beside: Sequence[Step]) -> bool:
        """Whether a step may run next to others; alone it always may."""
        together = sum(self.peaks.get(one.address, 0.0) for one in (step, *beside))
        return not beside or step.address not in self.peaks or together <= self.free


def schedule(
    steps: Sequence[Step],
    run: Callable[[Step, Sequence[int]], Outcome],
    cores: int = 1,
    gpus: int = 1,
    *,
    seconds: Mapping[str, float] | None = None,
    memory: Memory | None = None,
    watchers: Sequence[Watcher] = (),
) -> list[Outcome]:
    """Run the steps in threads, dependencies first; a step that depends on one that was not built is skipped.

    `run` builds a step in its places: indices of its GPUs, or for a step on the CPU of its shares of the cores. There
    are as many places as `cores` and `gpus`; a step that wants more gets all of them. Times that steps took before
    (`seconds`, by address) say which starts first: that with the longest path to the end. A step does not start while
    `memory` has no room for it next to those that run. Returns the outcomes, in the order of the steps.
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
                    # As in Prefect's own task runner, a thread belongs to the flow run that starts it.
                    work = partial(outcome_of, step, partial(run, step, own))
                    running[pool.submit(copy_context().run, work)] = step, own
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                del running[future]
                end(future.result())
    return [outcomes[step.address] for step in steps]


def kind_of(step: Step) -> str:
    """Where a step is built: on the `cpu` or a `gpu` of this host, or by a `pool` of others, as many as there are."""
    return step.device if step.device == "cpu" else "pool" if step.device.startswith(POOL) else "gpu"


def places_for(step: Step, running: Collection[tuple[Step, list[int]]], places: Mapping[str, int]) -> list[int] | None:
    """The places that a step gets next to those that run; None while too few are free."""
    kind = kind_of(step)
    taken = {place for other, own in running if kind_of(other) == kind for place in own}
    free = [place for place in range(places[kind]) if place not in taken]
    wanted = 1 if kind == "pool" else min(step.processes, places[kind])
    return free[:wanted] if len(free) >= wanted else None


def longest_first(steps: Sequence[Step], seconds: Mapping[str, float]) -> list[Step]:
    """The steps by the time of the longest path from each to the end; an unknown time counts as the mean."""
    average = fmean(seconds.values()) if seconds else 1.0
    longest: dict[str, float] = {}
    for step in reversed(steps):
        after = [longest[other.address] for other in steps if step.address in other.upstream]
        longest[step.address] = seconds.get(step.address, average) + max(after, default=0.0)
    return sorted(steps, key=lambda step: -longest[step.address])


def count_gpus(steps: Sequence[Step]) -> int:
    """How many stages on GPUs may run in parallel; 0, without importing torch, if there is no such stage."""
    return max(1, len(hardware.visible_devices())) if any(kind_of(step) == "gpu" for step in steps) else 0
