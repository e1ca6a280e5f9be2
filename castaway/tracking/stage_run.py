"""Records each stage as an MLflow run: parameters, curves, metrics, inputs, outputs and the model.

A failure of MLflow never stops a training: one warning is printed, and what could not be written is tried again at the
next update and at the end. All points are kept until then, so that a store that was deleted is filled again.
"""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from castaway.config.yaml_file import flatten
from castaway.processes.groups import mark
from castaway.tracking import store
from castaway.tracking.dvc_stage import DvcStage
from castaway.tracking.records import record_of
from castaway.tracking.store import main_figures, metric_name, unless_missing, warn

BUFFER = 500  # points that are written at once
INTERVAL = 2.0
"""Least time between two writes of curves, in seconds: an update of PPO takes longer, a step of SFT does not."""
AWAY = 30.0  # time until MLflow is tried again after it failed, in seconds
PATIENCE = 60.0  # how long the end of a stage waits for an MLflow that was there before, in seconds
TRIES = 3  # how often something is tried while MLflow answers

PARENT = "CASTAWAY_PARENT_RUN"  # environment variable that gives a stage the id of the pipeline's MLflow run


class StageRun:
    """The MLflow run of one stage; while MLflow cannot be used, its methods only collect."""

    def __init__(self, declared: DvcStage, params: Mapping[str, Any], facts: Mapping[str, str], revision: str) -> None:
        """Open the run of a stage that may read these parameters; `facts` are further tags."""
        self.run_id: str | None = None
        self.model_id: str | None = None
        self.seconds = 0.0  # time that the stage has spent on logging, in seconds
        self._declared = declared
        self._params = flatten(params)
        self._tags = {**store.stage_tags(declared, declared.inputs.stage_key, revision), "process": mark(), **facts}
        # An experiment of DVC, and the pipeline's run if a driver started the stage.
        for tag, variable in (("dvc.exp", "DVC_EXP_NAME"), ("mlflow.parentRunId", PARENT)):
            if os.environ.get(variable):
                self._tags[tag] = os.environ[variable]
        self._began = _now()
        self._mlflow: Any = None
        self._opened = 0
        self._described = False
        self._points: list[tuple[str, float, int, int]] = []
        """Name, value, time in milliseconds and step of every point so far."""
        self._written = 0
        self._next = 0.0
        self._away = False
        self._attempt("open a run", lambda: None)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add one point to each curve; it is written at once if the last write was `INTERVAL` ago."""
        self._points += [(metric_name(name), float(value), _now(), int(step)) for name, value in values.items()]
        if time.monotonic() >= self._next:
            self._attempt("write curves", self._flush)

    def tag(self, name: str, value: str) -> None:
        """Set a tag, which a run that is begun anew gets as well."""
        self._tags[name] = value
        if not self._away or time.monotonic() >= self._next:
            self._attempt("set a tag", lambda: self._mlflow.set_tag(self.run_id, name, value))

    def trace(
        self, name: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], began: float, ended: float
    ) -> None:
        """Record one call of an external service; `began` and `ended` are in seconds since 1970."""

        def write() -> None:
            span = self._mlflow.start_trace(
                name,
                "LLM",
                inputs=dict(inputs),
                experiment_id=self._mlflow.get_run(self.run_id).info.experiment_id,
                start_time_ns=int(began * 1e9),
                run_id=self.run_id,
            )
            self._mlflow.end_trace(span.trace_id, outputs=dict(outputs), end_time_ns=int(ended * 1e9))

        if not self._away or time.monotonic() >= self._next:
            self._attempt("write a trace", write)

    def succeed(self, figures: Mapping[str, Any], outputs: Mapping[str, str]) -> None:
        """Write the figures, the outputs by path and md5, and what can be drawn; close the run as FINISHED."""
        patience = PATIENCE if self.run_id else 0.0
        self._points += [(name, value, _now(), 0) for name, value in main_figures(figures).items()]
        written = self._attempt("write results", lambda: self._results(figures, outputs), patience)
        self.close("FINISHED", patience if written else 0.0)

    def _flush(self) -> None:
        from mlflow.entities import Metric

        began = time.monotonic()
        while self._written < len(self._points):
            points = self._points[self._written : self._written + BUFFER]
            self._mlflow.log_batch(self.run_id, metrics=[Metric(*point) for point in points])
            self._written += len(points)
        # Where writing is slow, it takes a twentieth of the time at most.
        self._next = time.monotonic() + max(INTERVAL, 20 * (time.monotonic() - began))

    def _results(self, figures: Mapping[str, Any], outputs: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        self._flush()
        declared = self._declared
        tags = store.output_tags(outputs)
        self._mlflow.log_batch(self.run_id, tags=[RunTag(key, value) for key, value in tags.items()])
        # An output with weights is a model.
        has_weights = any(file for out in declared.outs for file in (declared.root / out).glob("*.safetensors"))
        if has_weights and self.model_id is None:
            tags["dvc.stage_key"] = declared.inputs.stage_key
            self.model_id = store.log_model(self._mlflow, str(self.run_id), declared.address, self._params, tags)
        store.log_results(self._mlflow, str(self.run_id), declared.root, declared.address, self._params, figures)

    def close(self, status: str, patience: float = 0.0) -> None:
        """End the run with the points so far: as KILLED or FAILED; `succeed` ends it as FINISHED."""

        def close() -> None:
            self._flush()
            self._mlflow.set_terminated(self.run_id, status)

        if self.run_id:
            self._attempt("close the run", close, patience)

    def _attempt(self, what: str, action: Callable[[], None], patience: float = 0.0) -> bool:
        """Whether `action` worked; if it fails, bring back what is missing and try again, for `patience` seconds."""
        began, tries = time.monotonic(), 0
        while True:
            answers, failure = False, None
            try:
                if tries or self.run_id is None or not self._described:
                    self._bring_back()
                answers = True
                action()
            except Exception as error:  # any failure of MLflow: the training must continue
                failure = error
            tries += 1
            enough = tries >= TRIES if answers else tries > 1 and time.monotonic() >= began + patience
            if failure is None or enough:
                break
            time.sleep(0.1 if answers else 0.5)
        if failure is not None:
            if not self._away:
                warn(f"could not {what}, going on without it", failure)
            self._next = time.monotonic() + AWAY
        self._away = not answers
        self.seconds += time.monotonic() - began
        return failure is None

    def _bring_back(self) -> None:
        """Open the store, restore the experiment and the run if they were deleted, or begin the run anew."""
        self._mlflow = store.client(self._opened)
        self._opened += 1
        experiment = store.experiment_id(self._mlflow, self._declared.root)
        run = unless_missing(lambda: self._mlflow.get_run(self.run_id)) if self.run_id else None
        if run is None:
            store.close_left_open(self._mlflow, experiment, self._declared.root)
            name = self._declared.address
            run = self._mlflow.create_run(experiment, start_time=self._began, run_name=name, tags=self._tags)
            self.run_id, self.model_id, self._written, self._described = run.info.run_id, None, 0, False
        elif run.info.lifecycle_stage != "active":
            self._mlflow.restore_run(self.run_id)
        if not self._described:
            data = self._declared.inputs.data
            models = [record_of(self._declared.root, path).get("model_id") for path in data]
            # An output from another machine's cache has its model only there.
            known = [one for one in models if one and unless_missing(partial(self._mlflow.get_logged_model, one))]
            store.describe(self._mlflow, str(self.run_id), self._declared.name, self._params, data, known)
            self._described = True


def _now() -> int:
    """Milliseconds since 1970, as MLflow counts time."""
    return int(time.time() * 1000)
