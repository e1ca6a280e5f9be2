"""The benchmarks run, a moment of each."""

import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import logging_cost
from benchmarks.real_model import VLLM, WAYS, vllm

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
    headings = ["The games", "Rollouts", "A step beside TRL's", "Where the seconds of a step go", "What logging costs"]
    places = [shown.index(f"## {heading}\n") for heading in [*headings, "A real model", "Who wins"]]
    assert places == sorted(places)
    assert "TRL's GRPOTrainer" in shown and "ours, with values and log-probabilities" in shown
    assert "\n- A step beside TRL's: " in shown[places[-1] :] and "\n- A real model: " in shown[places[-1] :]
    real = shown[places[-2] : places[-1]].split("\n")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in real if line.startswith("| ")][1:]
    assert [row[0] for row in rows] == [name for name, (way, _) in WAYS.items() if way is not vllm or VLLM.is_dir()]
    assert all(float(row[2].replace(",", "")) > 0 and float(row[4]) > 0.1 for row in rows)
    assert [row[3] for row in rows if "`generate`" in row[0] or "TRL" in row[0]] == ["1.00", "1.00"]
    # A smoke test says nothing of speed, and leaves nothing.
    assert (RESULTS.read_bytes(), RESULTS.stat().st_mtime_ns) == before
