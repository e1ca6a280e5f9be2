"""How a stage's threads wait: by what the machine's cores are doing when it starts."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from castaway.config.params import Params
from castaway.tasks.registry import read_params
from flows import environment
from flows.environment import ASLEEP, AVX2, AWAKE, STEADY, idle_cores, settle, waiting
from flows.stage import base_of

ROOT = Path(__file__).parents[2]
SHIPPED = read_params(ROOT / "params.yaml")


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
    assert waiting(threads, processes) == expected


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
        assert waiting(2, 1) == ASLEEP
    finally:
        for one in burning:
            one.kill()
            one.wait()


def set_by(monkeypatch: pytest.MonkeyPatch, params: Params, address: str) -> dict[str, str]:
    """The variables that are set for a stage, where the user has set none."""
    monkeypatch.setattr(os, "environ", {})
    settle(params, base_of(params, address))
    return dict(os.environ)


@pytest.mark.parametrize("address", ["base@games", "ppo@marooned", "ppo@nowhere", "lone"])
def test_tiny_models_are_computed_alike_on_all_processors(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    found = set_by(monkeypatch, SHIPPED, address)
    assert {**STEADY, **AVX2}.items() <= found.items()


@pytest.mark.parametrize("address", ["base@smollm2", "ppo@strictbot"])
def test_a_given_model_may_be_computed_with_all_instructions(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    params = read_params(ROOT / "profiles" / "smollm2.yaml")
    base = params.bases["smollm2"]
    everywhere = params.model_copy(update={"bases": {"smollm2": base.model_copy(update={"instructions": "avx2"})}})
    assert AVX2.items() <= set_by(monkeypatch, everywhere, address).items()
    found = set_by(monkeypatch, params, address)
    assert STEADY.items() <= found.items() and not AVX2.keys() & found.keys()


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"ONEDNN_MAX_CPU_ISA": "SSE41"})
    settle(SHIPPED)
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "SSE41" and os.environ["ATEN_CPU_CAPABILITY"] == "avx2"
