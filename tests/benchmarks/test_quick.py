"""The benchmarks run, a moment of each."""

import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import logging_cost

RESULTS = Path(__file__).parents[2] / "benchmarks/results.md"


@pytest.mark.slow
def test_every_benchmark_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmarks, "start_afresh", lambda: None)  # this process is not begun again
    monkeypatch.setattr(logging_cost, "RUNS", 20)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick", "--model", str(tmp_path)])
    before = (RESULTS.read_bytes(), RESULTS.stat().st_mtime_ns)
    benchmarks.main()
    shown = capsys.readouterr().out
    for heading in ("The games", "Rollouts", "Where the seconds of a step go", "What logging costs"):
        assert f"## {heading}\n" in shown
    assert "ours, with values and log-probabilities" in shown
    assert "## A real model\n\nNot measured: " in shown
    # A smoke test says nothing of speed, and leaves nothing.
    assert (RESULTS.read_bytes(), RESULTS.stat().st_mtime_ns) == before
