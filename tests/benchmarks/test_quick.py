"""The benchmarks run, a moment of each."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_benchmark_runs(tmp_path: Path) -> None:
    results = ROOT / "benchmarks/results.md"
    before = (results.read_bytes(), results.stat().st_mtime_ns)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--model", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    headings = (
        "## The games",
        "## OpenSpiel's games",
        "## Rollouts",
        "## Where the seconds of a step go",
        "## Growth",
        "## What logging costs",
    )
    for heading in headings:
        assert heading in done.stdout
    assert "ours, with values and log-probabilities" in done.stdout
    assert "## A real model\n\nNot measured: " in done.stdout
    # A smoke test says nothing of speed, and leaves nothing.
    assert (results.read_bytes(), results.stat().st_mtime_ns) == before
