"""What a finished stage adds to its MLflow run: figures, the model, and the charts and pages of an evaluation."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from castaway.datasets.episodes import read_episode
from castaway.metrics.charts import grouped_bars
from castaway.tools.dotted import flatten
from castaway.tools.report.page import report_page
from castaway.tools.view import TaskView
from flows.store import is_missing, one_line

REPLAYS = 3
"""Number of episodes of an evaluation that are logged as pages, those of the final policy first."""


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among nested metrics, with dotted keys."""
    return {
        key: float(value)
        for key, value in flatten(metrics).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def knows(mlflow: Any, model_id: str) -> bool:
    """Whether this store has the model; an output from another machine's cache has its model only there."""
    from mlflow.exceptions import MlflowException

    try:
        mlflow.get_logged_model(model_id)
    except MlflowException as error:
        if is_missing(error):
            return False
        raise
    return True


def log_model(
    mlflow: Any, run_id: str, address: str, stage_key: str, params: Mapping[str, Any], tags: Mapping[str, str]
) -> str:
    """Log a model that points to DVC's files, and return its id.

    Args:
        mlflow: the client.
        run_id: the stage's run.
        address: the stage.
        stage_key: of its inputs.
        params: its parameters with dotted keys.
        tags: the hashes of its outputs.
    """
    from mlflow.entities import LoggedModelOutput

    model = mlflow.create_logged_model(
        experiment_id=mlflow.get_run(run_id).info.experiment_id,
        name=address.replace("@", "-"),
        source_run_id=run_id,
        params={key: str(value) for key, value in params.items()},
        tags={**tags, "dvc.stage_key": stage_key, "mlflow.model.isExternal": "true"},
        model_type=address.partition("@")[0],
    )
    mlflow.finalize_logged_model(model.model_id, "READY")
    mlflow.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
    return str(model.model_id)


def dataset_inputs(stage: str, data: Mapping[str, str]) -> list[Any]:
    """The data that a stage reads, by path and md5, as the inputs of its MLflow run."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    tags = [InputTag("mlflow.data.context", stage)]
    return [
        DatasetInput(Dataset(path, md5, "code", json.dumps({"tags": {"dvc.path": path}})), tags)
        for path, md5 in data.items()
    ]


def log_pages(mlflow: Any, run_id: str, root: Path, run: str, view: TaskView, metrics: Mapping[str, Any]) -> None:
    """Log the report of an evaluated run, its task's charts, and pages of episodes; what fails costs only itself.

    Args:
        mlflow: the client.
        run_id: the MLflow run of `evaluate`.
        root: the repository.
        run: the run.
        view: of its task.
        metrics: of `evaluate`, nested.
    """
    _attempt("write the report", lambda: mlflow.log_text(run_id, report_page(root, run), "report.html"))
    _attempt("draw charts", partial(_log_charts, mlflow, run_id, metrics, view))
    found = list((root / "data" / run / "evaluate").glob("*/*.jsonl"))
    found.sort(key=lambda path: (path.parent.name != "final", path.parent.name, len(path.stem), path.stem))
    for path in found[:REPLAYS]:
        _attempt(f"show {path.parent.name}/{path.name}", partial(_log_page, mlflow, run_id, path, view))


def _log_charts(mlflow: Any, run_id: str, metrics: Mapping[str, Any], view: TaskView) -> None:
    for name, (groups, figure) in view.charts(metrics).items():
        mlflow.log_text(run_id, grouped_bars(groups, figure), f"charts/{name}")


def _log_page(mlflow: Any, run_id: str, path: Path, view: TaskView) -> None:
    mlflow.log_text(run_id, view.page(read_episode(path)), f"replays/{path.parent.name}-{path.stem}.html")


def _attempt(what: str, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:
        print(f"warning: MLflow could not {what}, going on without it: {one_line(error)}", file=sys.stderr)
