"""Records each stage as an MLflow run: parameters, curves, metrics, inputs, outputs and the model.

The store is an SQLite file with an absolute path, so that experiments in temporary copies use the same store. A failure
of MLflow never stops a training: a warning is printed, and the stage continues.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from castaway.datasets.episodes import read_episode
from castaway.metrics.charts import grouped_bars
from castaway.tools.view import TaskView, view_of
from flows.declared import Declared, flatten
from flows.environment import main_root
from flows.records import record_of

REPLAYS = 3
"""Number of episodes of an evaluation that are logged as pages, those of the final policy first."""

BUFFER = 500
"""Number of curve points that are collected before they are written."""

PARENT = "CASTAWAY_PARENT_RUN"
"""Environment variable that gives a stage the id of the driver's MLflow run."""


def client() -> Any:
    """An MLflow client for the store in `MLFLOW_TRACKING_URI`."""
    # The import and the migration of the database would print a page of log lines.
    for name in ("alembic", "mlflow.store.db.utils", "mlflow.tracking.fluent"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # Traces are written at once, as the process may be killed at any moment.
    os.environ.setdefault("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
    from mlflow import MlflowClient

    return MlflowClient(os.environ["MLFLOW_TRACKING_URI"])


def experiment_id(mlflow: Any, root: Path, name: str) -> str:
    """The id of the experiment of that name, created if it does not exist, with its files beside the database."""
    from mlflow.exceptions import MlflowException

    found = mlflow.get_experiment_by_name(name)
    if found is None:
        local = os.environ["MLFLOW_TRACKING_URI"].startswith("sqlite:")
        location = (main_root(root) / "mlruns" / name).as_uri() if local else None
        try:
            return str(mlflow.create_experiment(name, artifact_location=location))
        except MlflowException:  # another stage has created it in the meantime
            found = mlflow.get_experiment_by_name(name)
    return str(found.experiment_id)


def revision(root: Path) -> str:
    """The current commit, with `+dirty` if the working tree differs from it.

    `dvc.lock` and `data` do not count: earlier stages have just written them, and they are not code.
    """

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    head = git("rev-parse", "--verify", "--quiet", "HEAD") or "none"
    written = (":(exclude)dvc.lock", ":(exclude)data")
    return f"{head}+dirty" if git("status", "--porcelain", "--untracked-files=no", "--", ".", *written) else head


class StageRun:
    """The MLflow run of one stage; if MLflow cannot be used, every method does nothing."""

    def __init__(self, declared: Declared, params: Mapping[str, Any], facts: Mapping[str, str]) -> None:
        """Open the run.

        Args:
            declared: the stage.
            params: the parameters that the stage may read, with the overrides of its run.
            facts: additional tags.
        """
        self.run_id: str | None = None
        self.model_id: str | None = None
        self._declared = declared
        self._params = flatten(params)
        self._mlflow: Any = None
        self._points: list[Any] = []
        self._attempt("open a run", lambda: self._open(facts))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add one point to each curve; points are written in batches of `BUFFER`."""
        if self._mlflow is None:
            return
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._points += [Metric(metric_name(name), float(value), now, int(step)) for name, value in values.items()]
        if len(self._points) >= BUFFER:
            self._attempt("write curves", self._flush)

    def trace(
        self, name: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], began: float, ended: float
    ) -> None:
        """Record one call of an external service; `began` and `ended` are in seconds since 1970."""
        self._attempt("write a trace", lambda: self._write_trace(name, inputs, outputs, began, ended))

    def _write_trace(
        self, name: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], began: float, ended: float
    ) -> None:
        span = self._mlflow.start_trace(
            name,
            "LLM",
            inputs=dict(inputs),
            experiment_id=self._mlflow.get_run(self.run_id).info.experiment_id,
            start_time_ns=int(began * 1e9),
            run_id=self.run_id,
        )
        self._mlflow.end_trace(span.trace_id, outputs=dict(outputs), end_time_ns=int(ended * 1e9))

    def succeed(self, metrics: Mapping[str, Any], outputs: Mapping[str, str]) -> None:
        """Write the results and close the run as FINISHED.

        Args:
            metrics: nested metrics; only numbers are logged.
            outputs: path to md5 of the outputs.
        """
        self._attempt("write results", lambda: self._results(metrics, outputs))
        self._close("FINISHED")

    def fail(self, status: str) -> None:
        """Close the run as FAILED or KILLED."""
        self._close(status)

    def _open(self, facts: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        declared = self._declared
        self._mlflow = client()
        experiment = experiment_id(self._mlflow, declared.root, declared.run or declared.name)
        self._close_stale_runs(experiment)
        run = self._mlflow.create_run(experiment, run_name=declared.address, tags=self._tags(facts))
        self.run_id = run.info.run_id
        params = [Param(key, str(value)) for key, value in self._params.items()]
        self._mlflow.log_batch(self.run_id, params=params)
        self._log_inputs()

    def _tags(self, facts: Mapping[str, str]) -> dict[str, str]:
        declared = self._declared
        tags = {
            "dvc.stage": declared.address,
            "dvc.stage_key": declared.inputs.stage_key,
            "dvc.rev": revision(declared.root),
            "process": f"{socket.gethostname()}:{os.getpid()}",
            "mlflow.source.name": f"stages/{declared.name}.py",
            **facts,
        }
        if experiment := os.environ.get("DVC_EXP_NAME"):
            tags["dvc.exp"] = experiment
        if parent := os.environ.get(PARENT):
            tags["mlflow.parentRunId"] = parent
        return tags

    def _close_stale_runs(self, experiment: str) -> None:
        """Close runs of this stage whose process no longer exists: SIGKILL left them marked as RUNNING."""
        address, host = self._declared.address, socket.gethostname()
        query = f"tags.`dvc.stage` = '{address}' and attributes.status = 'RUNNING'"
        for run in self._mlflow.search_runs([experiment], query):
            name, _, process = run.data.tags.get("process", "").rpartition(":")
            if name == host and not _alive(int(process)):
                self._mlflow.set_terminated(run.info.run_id, "KILLED")

    def _log_inputs(self) -> None:
        """Log the data that the stage reads, with DVC's hashes, and the models among it."""
        from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput

        tags = [InputTag("mlflow.data.context", self._declared.name)]
        datasets = [
            DatasetInput(Dataset(path, md5, "code", json.dumps({"tags": {"dvc.path": path}})), tags)
            for path, md5 in self._declared.inputs.data.items()
        ]
        records = [record_of(self._declared.root, path) for path in self._declared.inputs.data]
        models = [record["model_id"] for record in records if record.get("model_id")]
        known = [LoggedModelInput(model) for model in models if self._knows(model)]
        if datasets or known:
            self._mlflow.log_inputs(self.run_id, datasets=datasets, models=known)

    def _knows(self, model_id: str) -> bool:
        """Whether this store has the model; an output from another machine's cache has its model only there."""
        from mlflow.exceptions import MlflowException

        try:
            self._mlflow.get_logged_model(model_id)
        except MlflowException:
            return False
        return True

    def _flush(self) -> None:
        from mlflow.exceptions import MlflowException

        points, self._points = self._points, []
        for start in range(0, len(points), BUFFER):
            batch = points[start : start + BUFFER]
            try:
                self._mlflow.log_batch(self.run_id, metrics=batch)
            except MlflowException:
                self._write_one_by_one(batch)

    def _write_one_by_one(self, points: Sequence[Any]) -> None:
        """Write the points of a batch that MLflow rejected one by one, and warn about those it still rejects."""
        from mlflow.exceptions import MlflowException

        refused: dict[str, str] = {}
        for point in points:
            try:
                self._mlflow.log_batch(self.run_id, metrics=[point])
            except MlflowException as error:
                refused[point.key] = _line(error)
        for name, reason in refused.items():
            print(f"warning: MLflow did not take the metric {name}, the others are written: {reason}", file=sys.stderr)

    def _results(self, metrics: Mapping[str, Any], outputs: Mapping[str, str]) -> None:
        from mlflow.entities import Metric, RunTag

        self._flush()
        now = int(time.time() * 1000)
        numbers = {
            key: float(value)
            for key, value in flatten(metrics).items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        self._points = [Metric(metric_name(key), value, now, 0) for key, value in numbers.items()]
        self._flush()
        tags = {f"dvc.out.{path}": md5 for path, md5 in outputs.items()}
        self._mlflow.log_batch(self.run_id, tags=[RunTag(key, value) for key, value in tags.items()])
        # An output with weights is a model. DVC stores its files; MLflow gets an external LoggedModel without files.
        if any(weights for out in self._declared.outs for weights in (self._declared.root / out).glob("*.safetensors")):
            self._log_model(tags)
        if self._declared.name == "evaluate":
            self._log_pages(metrics, view_of(self._params[f"tasks.{self._declared.run}.task"]))

    def _log_pages(self, metrics: Mapping[str, Any], view: TaskView) -> None:
        """Log the task's charts of an evaluation, and pages of the first saved episodes."""
        self._attempt("draw charts", lambda: self._log_charts(metrics, view))
        folders = [self._declared.root / out for out in self._declared.outs]
        found = [path for folder in folders for path in folder.glob("*/*.jsonl")]
        found.sort(key=lambda path: (path.parent.name != "final", path.parent.name, len(path.stem), path.stem))
        for path in found[:REPLAYS]:
            self._attempt(f"show {path.parent.name}/{path.name}", partial(self._log_page, path, view))

    def _log_charts(self, metrics: Mapping[str, Any], view: TaskView) -> None:
        for name, (groups, figure) in view.charts(metrics).items():
            self._mlflow.log_text(self.run_id, grouped_bars(groups, figure), f"charts/{name}")

    def _log_page(self, path: Path, view: TaskView) -> None:
        page = view.page(read_episode(path))
        if page is not None:
            self._mlflow.log_text(self.run_id, page, f"replays/{path.parent.name}-{path.stem}.html")

    def _log_model(self, tags: Mapping[str, str]) -> None:
        from mlflow.entities import LoggedModelOutput

        declared = self._declared
        model = self._mlflow.create_logged_model(
            experiment_id=self._mlflow.get_run(self.run_id).info.experiment_id,
            name=declared.address.replace("@", "-"),
            source_run_id=self.run_id,
            params={key: str(value) for key, value in self._params.items()},
            tags={**tags, "dvc.stage_key": declared.inputs.stage_key, "mlflow.model.isExternal": "true"},
            model_type=declared.name,
        )
        self._mlflow.finalize_logged_model(model.model_id, "READY")
        self._mlflow.log_outputs(self.run_id, [LoggedModelOutput(model.model_id, step=0)])
        self.model_id = model.model_id

    def _close(self, status: str) -> None:
        def close() -> None:
            self._flush()
            self._mlflow.set_terminated(self.run_id, status)

        self._attempt("close the run", close)

    def _attempt(self, what: str, action: Callable[[], None]) -> None:
        if self._mlflow is None and what != "open a run":
            return
        try:
            action()
        except Exception as error:  # any failure of MLflow: the training must continue
            if self.run_id is None:
                self._mlflow = None
            print(f"warning: MLflow could not {what}, going on without it: {_line(error)}", file=sys.stderr)


def metric_name(name: str) -> str:
    """A name that MLflow accepts: characters other than letters, digits and `_-. :/` become underscores."""
    return re.sub(r"[^\w\-. :/]", "_", name, flags=re.ASCII)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
