"""How a stage's threads wait: by what the machine's cores are doing when it starts."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from castaway.config.params import Params
from castaway.tasks.registry import read_params
from flows import environment
from flows.environment import ASLEEP, AWAKE, idle_cores, waiting

SHIPPED = read_params(Path(__file__).parents[2] / "params.yaml")


def running(threads: int, processes: int = 1) -> Params:
    ppo = SHIPPED.ppo.model_copy(update={"processes": processes})
    return SHIPPED.model_copy(update={"threads": threads, "ppo": ppo})


@pytest.mark.parametrize(
    ("idle", "threads", "processes", "expected"),
    [
        (1.85, 2, 1, AWAKE),
        (16.0, 2, 1, AWAKE),
        (0.98, 2, 1, ASLEEP),
        (1.85, 4, 1, ASLEEP),
        (1.85, 2, 2, ASLEEP),
        (3.9, 2, 2, AWAKE),
        (2.0, 1, 1, ASLEEP),
    ],
)
def test_threads_wait_awake_where_each_has_a_core(
    monkeypatch: pytest.MonkeyPatch, idle: float, threads: int, processes: int, expected: dict[str, str]
) -> None:
    monkeypatch.setattr(environment, "idle_cores", lambda: idle)
    assert waiting(running(threads, processes)) == expected


def test_idle_cores_are_counted_in_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    times, clock = iter([100.0, 100.5]), iter([7.0, 7.25])
    monkeypatch.setattr(psutil, "cpu_times", lambda: type("Times", (), {"idle": next(times)}))
    monkeypatch.setattr(environment, "monotonic", lambda: next(clock))
    monkeypatch.setattr(environment, "sleep", lambda seconds: None)
    assert idle_cores() == 2.0


def test_a_machine_that_computes_has_no_idle_core() -> None:
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(psutil.cpu_count() or 1)]
    try:
        # Until they have started, the cores may be idle.
        while idle_cores() > 0.5:
            pass
        assert waiting(running(threads=2)) == ASLEEP
    finally:
        for one in burning:
            one.kill()
            one.wait()
