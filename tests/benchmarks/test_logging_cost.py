"""A store with thousands of runs costs neither the lineage nor a stage its time."""

import os
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient

from benchmarks.logging_cost import COPIED, ROOT, RUNS, fill
from flows.store import EXPERIMENT

SECONDS = 2.0
"""The bar for `castaway lineage`."""


@pytest.mark.slow
def test_lineage_beside_ten_thousand_runs(tmp_path: Path) -> None:
    fill(tmp_path, RUNS)
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        assert database.execute("SELECT count(*), count(DISTINCT run_uuid) FROM runs").fetchone() == (RUNS, RUNS)
    # MLflow itself reads them: they are whole.
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (found,) = client.search_runs([client.get_experiment_by_name(EXPERIMENT).experiment_id], max_results=1)
    assert (len(found.data.metrics), len(found.data.params)) == (30, 50)
    for path in [*(ROOT / name for name in COPIED), *ROOT.glob("data/*/runs/*.json")]:
        place = tmp_path / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "castaway.cli.main", "lineage", "marooned"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stderr) == (0, "") and "data/games/base" in done.stdout
    # Of the processor: what else runs on this machine takes nothing of it.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS
