"""The order in which the steps of a plan run, how many at once, and what comes of their failures; nothing is built."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from castaway.tasks.registry import read_params
from castaway.tools import hardware
from flows.display import Display, last_lines, last_text, new_log
from flows.report import Outcome, Step
from flows.walk import Memory, cores, gpus, longest_first, recorded, walk
from tests.flows.conftest import ROOT


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

    outcomes = walk(steps, run, seconds=seconds)
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
    outcomes = walk(steps, run, 2, memory=memory)
    assert [outcome.state for outcome in outcomes] == ["Ran"] * 4
    # Nothing is known of one step, so it may run beside any other; what no host could hold runs alone.
    assert not any({"large", "small"} <= set(one) or {"huge", "small"} <= set(one) for one in beside)


def test_the_recorded_seconds_are_those_of_the_last_run(tmp_path: Path) -> None:
    for path, text in (("a/runs/sft.json", '{"seconds": 2}'), ("b/runs/sft.json", "{"), ("runs/sft.json", "{}")):
        (tmp_path / "data" / path).parent.mkdir(parents=True)
        (tmp_path / "data" / path).write_text(text)
    steps = steps_of({"sft@a": "", "sft@b": "", "sft": "", "ppo@a": ""})
    assert recorded(tmp_path, steps, "seconds") == {"sft@a": 2.0}


def test_whatever_a_step_raises_is_its_failure() -> None:
    def run(step: Step, places: Sequence[int]) -> Outcome:
        if step.address == "leak":
            raise OSError("no space left on device")
        if step.address == "exit":
            raise SystemExit(0)
        return Outcome(step, "Ran")

    steps = steps_of({"leak": "", "sink": "leak", "drown": "sink", "swim": "", "exit": ""})
    outcomes = walk(steps, run, 2)
    assert [outcome.state for outcome in outcomes] == ["Failed", "Skipped", "Skipped", "Ran", "Failed"]
    assert outcomes[0].message == "leak failed: OSError: no space left on device"
    assert outcomes[2].message == "needs sink"


def test_each_gpu_is_held_by_one_stage_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(2)
    held: list[int] = []
    seen: list[int] = []

    def run(step: Step, places: Sequence[int]) -> Outcome:
        (place,) = places
        assert place not in held
        held.append(place)
        seen.append(place)
        meeting.wait(30)
        held.remove(place)
        meeting.wait(30)
        return Outcome(step, "Ran")

    outcomes = walk(steps_of(dict.fromkeys("abcd", ""), "cuda"), run, 1, 2)
    assert [(outcome.state, outcome.message) for outcome in outcomes] == [("Ran", "")] * 4
    assert sorted(seen) == [0, 0, 1, 1]

    monkeypatch.setattr(hardware, "visible_devices", lambda: [hardware.CPU] * 3)
    assert gpus(steps_of({"a": ""}, "cuda")) == 3
    assert gpus(steps_of({"a": ""})) == 0


def test_processes_that_train_together_have_a_place_each() -> None:
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

    steps = [
        Step(name, (), "cuda", 1.0, (), processes=processes)
        for name, processes in (("one", 1), ("two", 2), ("three", 3), ("many", 9), ("another", 1))
    ]
    outcomes = walk(steps, run, 1, 3)
    assert [(outcome.state, outcome.message) for outcome in outcomes] == [("Ran", "")] * 5
    assert {name: len(places) for name, places in seen.items()} == {
        "one": 1,
        "two": 2,
        "three": 3,
        "many": 3,
        "another": 1,
    }


def test_the_last_of_a_log_is_what_a_terminal_would_show(tmp_path: Path) -> None:
    log = new_log(tmp_path, "sft@marooned")
    assert last_text(log) == ""
    log.write_bytes(b"first\n\nppo:  1%\rppo: 50%\r\x1b[1mppo\x1b[0m: 99%\r\n[bold] \xff\n")
    assert last_lines(log, 2) == ["ppo: 99%", "[bold] \ufffd"]
    log.write_bytes(b"first\n 7/9 steps\r")
    assert last_text(log) == "7/9 steps"
    assert last_lines(tmp_path / "missing", 1) == []
    assert new_log(tmp_path, "sft@marooned").read_bytes() == b""

    display = Display(tmp_path)
    (step,) = steps_of({"sft@marooned": ""})
    display.started(step)
    assert display.table().row_count == 1
    display.ended(Outcome(step, "Ran", 14.2))
    assert display.table().row_count == 0


def test_an_outcome_is_a_row() -> None:
    step = Step("sft@marooned", (), "cpu", 1.0, ("data/marooned/sft",))
    outcome = Outcome(step, "Ran", 1.26, record={"run_id": None, "began": "now"})
    assert outcome.row() == {
        "stage": "sft@marooned",
        "state": "Ran",
        "seconds": "1.3",
        "why": "",
        "run": "-",
        "made": "now",
    }


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

    walk(steps_of(dict.fromkeys("abcdefgh", "")) + steps_of(dict.fromkeys("xy", ""), "cuda"), run, 2, 1)
    assert most == {"cpu": 2, "cuda": 1}
    params = read_params(ROOT / "params.yaml")
    assert cores(params) == max(1, len(os.sched_getaffinity(0)) // params.threads)
