"""Records each stage as an MLflow run: parameters, curves, metrics, inputs, outputs and the model.

A failure of MLflow never stops a training: one warning is printed, and what could not be written is tried again at the
next update and at the end. All points are kept until then, so that a store that was deleted is filled again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from castaway.tools.dotted import flatten
from castaway.tools.view import view_of
from flows import alive, results
from flows.declared import Declared
from flows.records import read_json, record_of, record_path
from flows.store import client, experiment_id, is_missing, metric_name, one_line

BUFFER = 500
"""Number of points that are written at once."""
INTERVAL = 2.0
"""Least time between two writes of curves, in seconds: an update of PPO takes longer, a step of SFT does not."""
AWAY = 30.0
"""Time until MLflow is tried again after it failed, in seconds."""
PATIENCE = 60.0
"""How long the end of a stage waits for an MLflow that was there before, in seconds."""
TRIES = 3
"""How often something is tried while MLflow answers."""

PARENT = "CASTAWAY_PARENT_RUN"
"""Environment variable that gives a stage the id of the driver's MLflow run."""


class StageRun:
    """The MLflow run of one stage; while MLflow cannot be used, its methods only collect."""

    def __init__(self, declared: Declared, params: Mapping[str, Any], facts: Mapping[str, str], revision: str) -> None:
        """Open the run.

        Args:
            declared: the stage.
            params: the parameters that the stage may read, with the overrides of its run.
            facts: additional tags.
            revision: the commit that the stage runs with.
        """
        self.run_id: str | None = None
        self.model_id: str | None = None
        self.seconds = 0.0
        """Time that the stage has spent on logging, in seconds."""
        self._declared = declared
        self._params = flatten(params)
        self._tags = run_tags(declared, facts, revision)
        self._began = _now()
        self._mlflow: Any = None
        self._opened = 0
        self._described = False
        self._points: list[tuple[str, float, int, int]] = []
        """Name, value, time in milliseconds and step of every point so far."""
        self._written = 0
        self._refused: set[str] = set()
        self._next = 0.0
        self._away = False
        self._attempt("open a run", lambda: None)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add one point to each curve; it is written at once if the last write was `INTERVAL` ago."""
        self._points += [(metric_name(name), float(value), _now(), int(step)) for name, value in values.items()]
        if time.monotonic() >= self._next:
            self._attempt("write curves", self._flush)

    def trace(
        self, name: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], began: float, ended: float
    ) -> None:
        """Record one call of an external service; `began` and `ended` are in seconds since 1970."""
        if not self._away or time.monotonic() >= self._next:
            self._attempt("write a trace", lambda: self._write_trace(name, inputs, outputs, began, ended))

    def succeed(self, metrics: Mapping[str, Any], outputs: Mapping[str, str]) -> None:
        """Write the results and close the run as FINISHED.

        Args:
            metrics: nested metrics; only numbers are logged.
            outputs: path to md5 of the outputs.
        """
        patience = PATIENCE if self.run_id else 0.0
        self._points += [(metric_name(key), value, _now(), 0) for key, value in results.numbers(metrics).items()]
        written = self._attempt("write results", lambda: self._results(metrics, outputs), patience)
        self._close("FINISHED", patience if written else 0.0)

    def fail(self, status: str) -> None:
        """Close the run as FAILED or KILLED."""
        self._close(status, 0.0)

    # What is written ------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Write the points that are not yet written."""
        from mlflow.entities import Metric
        from mlflow.exceptions import MlflowException

        began = time.monotonic()
        while self._written < len(self._points):
            points = self._points[self._written : self._written + BUFFER]
            batch = [Metric(*point) for point in points if point[0] not in self._refused]
            try:
                self._mlflow.log_batch(self.run_id, metrics=batch)
            except MlflowException as error:
                # A name that MLflow does not take refuses the whole batch, and so does a run that was deleted.
                if error.error_code != "INVALID_PARAMETER_VALUE" or not self._is_active():
                    raise
                self._write_one_by_one(batch)
            self._written += len(points)
        # Where writing is slow, it takes a twentieth of the time at most.
        self._next = time.monotonic() + max(INTERVAL, 20 * (time.monotonic() - began))

    def _write_one_by_one(self, points: Sequence[Any]) -> None:
        """Write the points of a refused batch one by one, and warn about names that are still refused."""
        from mlflow.exceptions import MlflowException

        for point in points:
            if point.key in self._refused:
                continue
            try:
                self._mlflow.log_batch(self.run_id, metrics=[point])
            except MlflowException as error:
                if error.error_code != "INVALID_PARAMETER_VALUE":
                    raise
                self._refused.add(point.key)
                warn(f"did not take the metric {point.key}, the others are written", error)

    def _results(self, metrics: Mapping[str, Any], outputs: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        self._flush()
        declared = self._declared
        tags = {f"dvc.out.{path}": md5 for path, md5 in outputs.items()}
        self._mlflow.log_batch(self.run_id, tags=[RunTag(key, value) for key, value in tags.items()])
        # An output with weights is a model. DVC stores its files; MLflow gets an external LoggedModel without files.
        has_weights = any(file for out in declared.outs for file in (declared.root / out).glob("*.safetensors"))
        if has_weights and self.model_id is None:
            key = declared.inputs.stage_key
            self.model_id = results.log_model(self._mlflow, str(self.run_id), declared.address, key, self._params, tags)
        if declared.name == "evaluate":
            view = view_of(self._params[f"tasks.{declared.run}.task"])
            results.log_pages(self._mlflow, str(self.run_id), declared.root, declared.run, view, metrics)

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

    def _close(self, status: str, patience: float) -> None:
        if self.run_id is None:
            return

        def close() -> None:
            self._flush()
            self._mlflow.set_terminated(self.run_id, status)

        self._attempt("close the run", close, patience)

    # Opening, and bringing back -------------------------------------------------------------------------------------

    def _attempt(self, what: str, action: Callable[[], None], patience: float = 0.0) -> bool:
        """Call `action`; if it fails, bring back what is missing in the store and try again.

        Args:
            what: for the warning.
            action: what to do, with a run that is open.
            patience: how long to wait for an MLflow that does not answer, in seconds.

        Returns:
            Whether it succeeded.
        """
        began = time.monotonic()
        try:
            return self._persist(what, action, patience)
        finally:
            self.seconds += time.monotonic() - began

    def _persist(self, what: str, action: Callable[[], None], patience: float) -> bool:
        end, tries = time.monotonic() + patience, 0
        while True:
            answers = False
            try:
                if tries or self.run_id is None or not self._described:
                    self._bring_back()
                answers = True
                action()
            except Exception as error:  # any failure of MLflow: the training must continue
                failure = error
            else:
                self._away = False
                return True
            tries += 1
            if tries >= TRIES if answers else tries > 1 and time.monotonic() >= end:
                break
            time.sleep(0.1 if answers else 0.5)
        if not self._away:
            warn(f"could not {what}, going on without it", failure)
        self._away = not answers
        self._next = time.monotonic() + AWAY
        return False

    def _bring_back(self) -> None:
        """Open the store, restore the experiment and the run if they were deleted, or begin the run anew."""
        self._mlflow = client(self._opened)
        self._opened += 1
        experiment = experiment_id(self._mlflow, self._declared.root)
        if self.run_id is None or not self._restored():
            close_left_open(self._mlflow, experiment, self._declared.root)
            name = self._declared.address
            run = self._mlflow.create_run(experiment, start_time=self._began, run_name=name, tags=self._tags)
            self.run_id, self.model_id, self._written, self._described = run.info.run_id, None, 0, False
        if not self._described:
            self._describe()

    def _restored(self) -> bool:
        """Whether the run is there, active again if it was deleted in the web page of MLflow."""
        from mlflow.exceptions import MlflowException

        try:
            info = self._mlflow.get_run(self.run_id).info
        except MlflowException as error:
            if is_missing(error):
                return False
            raise
        if self._mlflow.get_experiment(info.experiment_id).lifecycle_stage == "deleted":
            self._mlflow.restore_experiment(info.experiment_id)
        if not self._is_active():
            self._mlflow.restore_run(self.run_id)
        return True

    def _is_active(self) -> bool:
        return bool(self._mlflow.get_run(self.run_id).info.lifecycle_stage == "active")

    def _describe(self) -> None:
        """Log the parameters, the data that the stage reads with DVC's hashes, and the models among it."""
        from mlflow.entities import LoggedModelInput, Param

        params = [Param(key, str(value)) for key, value in self._params.items()]
        self._mlflow.log_batch(self.run_id, params=params)
        data = self._declared.inputs.data
        datasets = results.dataset_inputs(self._declared.name, data)
        found = [record_of(self._declared.root, path) for path in data]
        models = [record["model_id"] for record in found if record.get("model_id")]
        known = [LoggedModelInput(model) for model in models if results.knows(self._mlflow, model)]
        if datasets or known:
            self._mlflow.log_inputs(self.run_id, datasets=datasets, models=known)
        self._described = True


def run_tags(declared: Declared, facts: Mapping[str, str], revision: str) -> dict[str, str]:
    """The tags of a stage's run."""
    tags = {
        "dvc.stage": declared.address,
        "dvc.stage_key": declared.inputs.stage_key,
        "castaway.run": declared.run,
        "dvc.rev": revision,
        "process": alive.mark(),
        "mlflow.source.name": f"stages/{declared.name}.py",
        "mlflow.source.git.commit": revision.partition("+")[0],
        **facts,
    }
    if experiment := os.environ.get("DVC_EXP_NAME"):
        tags["dvc.exp"] = experiment
    if parent := os.environ.get(PARENT):
        tags["mlflow.parentRunId"] = parent
    return tags


def close_left_open(mlflow: Any, experiment: str, root: Path) -> None:
    """Close the runs of the experiment that are marked as RUNNING though their process has ended.

    One whose stage came to its end, as its record shows, could not reach MLflow then and is FINISHED; others were
    killed.
    """
    for run in mlflow.search_runs([experiment], "attributes.status = 'RUNNING'"):
        tags = run.data.tags
        if not alive.has_ended(tags.get("process", "")):
            continue
        name, _, of = tags.get("dvc.stage", "").partition("@")
        recorded = read_json(record_path(root, of, name)).get("run_id") if name else None
        mlflow.set_terminated(run.info.run_id, "FINISHED" if recorded == run.info.run_id else "KILLED")


def warn(what: str, error: Exception) -> None:
    """Print one line about a failure of MLflow."""
    print(f"warning: MLflow {what}: {one_line(error)}", file=sys.stderr)


def _now() -> int:
    return int(time.time() * 1000)
