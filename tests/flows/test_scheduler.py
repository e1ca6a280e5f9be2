"""The order in which the steps of a plan run, how many at once, and what comes of their failures; nothing is built."""

import os
import threading
from collections.abc import Sequence

import pytest

from castaway.processes import hardware
from castaway.processes.hardware import cores
from flows.scheduler import Memory, count_gpus, longest_first, schedule
from flows.steps import Outcome, Step


def steps_of(graph: dict[str, str], device: str = "cpu") -> list[Step]:
    return [Step(name, tuple(upstream.split()), device, 1.0, ()) for name, upstream in graph.items()]


def test_the_longest_way_to_the_end_is_begun_first() -> None:
    steps = steps_of({"base": "", "short": "", "sft": "base", "ppo": "sft", "long": ""})
    by_depth = [step.address for step in longest_first(steps, {})]
    assert by_depth == ["base", "sft", "short", "ppo", "long"]
    seconds = {"base": 10.0, "sft": 1.0, "ppo": 5.0, "short": 2.0, "long": 15.5}
    assert [step.address for step in longest_first(steps, seconds)] == ["base", "long", "sft", "ppo", "short"]
    del seconds["long"]  # taken for the average, 4.5
    assert [step.address for step in longest_first(steps, seconds)] == ["base", "sft", "ppo", "long", "short"]

    begun = []

    def run(step: Step, places: Sequence[int]) -> Outcome:
        begun.append(step.address)
        return Outcome(step, "Ran")

    outcomes = schedule(steps, run, seconds=seconds)
    assert begun == ["base", "sft", "ppo", "long", "short"]
    assert [outcome.step for outcome in outcomes] == steps


def test_a_step_waits_until_there_is_memory_for_it() -> None:
    beside: list[tuple[str, ...]] = []
    running: set[str] = set()
    meeting = threading.Barrier(2, timeout=60)

    def run(step: Step, places: Sequence[int]) -> Outcome:
        running.add(step.address)
        if step.address in ("small", "unknown"):
            meeting.wait()
        beside.append(tuple(sorted(running)))
        if step.address in ("small", "unknown"):
            meeting.wait()
        running.discard(step.address)
        return Outcome(step, "Ran")

    steps = steps_of(dict.fromkeys(("large", "small", "unknown", "huge"), ""))
    memory = Memory(free=8.0, peaks={"large": 7.0, "small": 2.0, "huge": 99.0})
    outcomes = schedule(steps, run, 2, memory=memory)
    assert [outcome.state for outcome in outcomes] == ["Ran"] * 4
    # Nothing is known of one step, so it may run beside any other; what no host could hold runs alone.
    assert not any({"large", "small"} <= set(one) or {"huge", "small"} <= set(one) for one in beside)


def test_whatever_a_step_raises_is_its_failure() -> None:
    def run(step: Step, places: Sequence[int]) -> Outcome:
        if step.address == "leak":
            raise OSError("no space left on device")
        if step.address == "exit":
            raise SystemExit(0)
        return Outcome(step, "Ran")

    steps = steps_of({"leak": "", "sink": "leak", "drown": "sink", "swim": "", "exit": ""})
    outcomes = schedule(steps, run, 2)
    assert [outcome.state for outcome in outcomes] == ["Failed", "Skipped", "Skipped", "Ran", "Failed"]
    assert outcomes[0].message == "leak failed: OSError: no space left on device"
    assert outcomes[2].message == "needs sink"


def test_each_gpu_is_held_by_one_stage_at_a_time_and_processes_that_train_together_have_one_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: set[int] = set()
    seen: dict[str, list[int]] = {}
    counting, patience = threading.Lock(), threading.Event()

    def run(step: Step, places: Sequence[int]) -> Outcome:
        with counting:
            assert held.isdisjoint(places)
            held.update(places)
            seen[step.address] = list(places)
        patience.wait(0.02)  # so that a neighbour that may start has started
        with counting:
            held.difference_update(places)
        return Outcome(step, "Ran")

    wanted = {"one": 1, "two": 2, "three": 3, "many": 9, "another": 1, "last": 1}
    steps = [Step(name, (), "cuda", 1.0, (), processes=processes) for name, processes in wanted.items()]
    outcomes = schedule(steps, run, 1, 3)
    assert [(outcome.state, outcome.message) for outcome in outcomes] == [("Ran", "")] * len(wanted)
    assert {name: len(places) for name, places in seen.items()} == {**wanted, "many": 3}

    monkeypatch.setattr(hardware, "visible_devices", lambda: [hardware.CPU] * 3)
    assert count_gpus(steps_of({"a": ""}, "cuda")) == 3
    assert count_gpus(steps_of({"a": ""})) == 0


def test_a_stage_on_a_gpu_does_not_unbind_those_on_the_cpu() -> None:
    now, most = {"cpu": 0, "cuda": 0}, {"cpu": 0, "cuda": 0}
    counting, patience = threading.Lock(), threading.Event()

    def run(step: Step, places: Sequence[int]) -> Outcome:
        with counting:
            now[step.device] += 1
            most[step.device] = max(most[step.device], now[step.device])
        patience.wait(0.02)  # so that a neighbour that may start has started
        with counting:
            now[step.device] -= 1
        return Outcome(step, "Ran")

    schedule(steps_of(dict.fromkeys("abcdefgh", "")) + steps_of(dict.fromkeys("xy", ""), "cuda"), run, 2, 1)
    assert most == {"cpu": 2, "cuda": 1}
    assert cores() == len(os.sched_getaffinity(0))
