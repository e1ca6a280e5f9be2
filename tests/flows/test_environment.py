"""How a stage's threads wait: by what the machine's cores are doing when it starts."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from castaway.params import Params, load_params
from flows.environment import ASLEEP, AWAKE, WATCHED_SECONDS, waiting

SHIPPED = load_params(Path(__file__).parents[2] / "params.yaml")


def running(threads: int, processes: int = 1) -> Params:
    content = SHIPPED.model_dump()
    return Params.model_validate({**content, "threads": threads, "ppo": {**content["ppo"], "processes": processes}})


def idle(monkeypatch: pytest.MonkeyPatch, *shares: float) -> None:
    found = [SimpleNamespace(idle=share) for share in shares]
    monkeypatch.setattr(psutil, "cpu_times_percent", lambda seconds, percpu: found)


def test_threads_with_a_core_each_wait_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    idle(monkeypatch, 97.0, 88.0)
    assert waiting(running(threads=2)) == AWAKE


def test_threads_that_would_share_a_core_wait_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    idle(monkeypatch, 3.0, 95.0)
    assert waiting(running(threads=2)) == ASLEEP
    idle(monkeypatch, 97.0, 88.0)
    assert waiting(running(threads=4)) == ASLEEP
    assert waiting(running(threads=2, processes=2)) == ASLEEP, "four threads, two cores"


def test_one_thread_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    idle(monkeypatch, 100.0, 100.0)
    assert waiting(running(threads=1)) == ASLEEP


def test_what_the_library_reads_is_what_the_rule_needs() -> None:
    shares = psutil.cpu_times_percent(WATCHED_SECONDS, percpu=True)
    assert len(shares) == psutil.cpu_count()
    assert all(0.0 <= share.idle <= 100.0 for share in shares)
