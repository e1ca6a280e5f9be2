"""`dvc metrics` fits a terminal, and says nothing of a build that found the same."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from castaway.metrics.built import built, stage_path, stages_of
from castaway.tasks.registry import read_params
from castaway.tracking.records import headline, write_json
from tests.flows.conftest import BASE_ALONE, BODY, ROOT, WITHOUT_MLFLOW, Repository
from tests.miniature import copy_tree, run

COLUMNS, ROWS, FIGURES = 120, 40, 10


def test_all_stages_of_all_runs_are_one_table_that_fits_a_terminal(tmp_path: Path) -> None:
    copy_tree(tmp_path)
    run(tmp_path, "git", "init", "-q")
    params = read_params(ROOT / "params.yaml")
    count = 0
    for of in (*params.bases, *params.tasks):
        for stage in stages_of(ROOT, of):
            names = importlib.import_module(f"stages.{stage}").HEADLINE
            found = headline(names, built(ROOT, of, stage).figures)
            assert set(found) == set(names) and len(found) <= FIGURES, f"{stage}@{of}"
            write_json(tmp_path / stage_path(of, "metrics", stage), found)
            count += 1
    lines = run(tmp_path, "dvc", "metrics", "show").splitlines()
    assert len(lines) == count + 1 <= ROWS
    assert max(map(len, lines)) <= COLUMNS, "\n".join(lines)
    assert not any("/runs/" in line for line in lines)


@pytest.mark.slow
def test_an_identical_rebuild_differs_in_nothing(repository: Callable[[str], Repository]) -> None:
    made = repository(BASE_ALONE)
    made.write("stages/base.py", BODY)
    assert made.run("dvc", "repro", **WITHOUT_MLFLOW).returncode == 0
    made.commit()
    record = (made.root / "data/runs/base.json").read_text("utf-8")
    assert made.run("dvc", "repro", "--force", **WITHOUT_MLFLOW).returncode == 0
    assert (made.root / "data/runs/base.json").read_text("utf-8") != record
    told = made.run("dvc", "metrics", "diff")
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")
    assert json.loads((made.root / "data/published/base.json").read_text("utf-8"))["record"] != json.loads(record)
