"""Lineage beside a store with thousands of runs."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient

from benchmarks.logging_cost import COPIED, ROOT, RUNS, fill
from castaway.tracking.store import EXPERIMENT
from tests.castaway.command import castaway


@pytest.mark.slow
def test_lineage_beside_ten_thousand_runs(tmp_path: Path) -> None:
    fill(tmp_path, RUNS)
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        assert database.execute("SELECT count(*), count(DISTINCT run_uuid) FROM runs").fetchone() == (RUNS, RUNS)
    # MLflow itself reads them: they are whole.
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (found,) = client.search_runs([client.get_experiment_by_name(EXPERIMENT).experiment_id], max_results=1)
    assert (len(found.data.metrics), len(found.data.params)) == (30, 50)
    for path in [*(ROOT / name for name in COPIED), *ROOT.glob("data/*/published/*.json")]:
        place = tmp_path / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    done = castaway("lineage", "marooned", at=tmp_path)
    assert (done.exit_code, done.stderr) == (0, "") and "base@island" in done.stdout
