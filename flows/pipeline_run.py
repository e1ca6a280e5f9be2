"""The MLflow run of one execution of the pipeline: parameters, outcomes of the stages, and figures."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from castaway.config.errors import CastawayError
from castaway.config.params import Params
from castaway.config.yaml_file import flatten
from castaway.metrics.built import built
from castaway.processes.environment import revision
from castaway.processes.groups import mark
from castaway.tracking import stage_run, store
from flows.steps import Outcome, Step

DRIVER = "pipeline"
PARAMS = ("seed", "device", "threads", "teacher.kind")
RUN_PARAMS = (
    *("dataset.demonstrations", "sft.epochs", "sft.learning_rate", "reward_model.learning_rate", "ppo.steps"),
    *("ppo.rollout.episodes_per_step", "ppo.learning_rate", "ppo.kl.coefficient", "evaluate.block"),
    "evaluate.episodes",
)
"""The parameters of each run, besides its base model: those that builds most often differ in."""
FIGURES = {
    **{name: name for name in ("sft.success_rate", "ppo.success_rate", "final.success_rate", "expert.success_rate")},
    **{name: name for name in ("final.success_rate_low", "final.success_rate_high")},
    "invalid_rate": "final.invalid_rate",
    "episodes": "final.episodes",
}
"""The metrics of each evaluated run, and the figures of its evaluation that they are."""


class PipelineRun:
    """One execution of the pipeline in MLflow; the runs of its stages are its children."""

    def __init__(self, root: Path, targets: Sequence[str], params: Params, steps: Sequence[Step]) -> None:
        self._root = root
        self._targets = " ".join(targets) or "everything"
        self._params = {"targets": self._targets, **key_params(params, steps)}
        self._mlflow: Any = None
        self._opened = 0
        self._run_id = ""
        self._status = "FINISHED"
        self._began = time.monotonic()

    @property
    def variables(self) -> dict[str, str]:
        return {stage_run.PARENT: self._run_id} if self._run_id else {}

    def __enter__(self) -> Self:
        self._attempt("open a run", self._open)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._status = "FAILED" if issubclass(kind, Exception) else "KILLED"
        if self._run_id:
            self._attempt("close the run", lambda: self._mlflow.set_terminated(self._run_id, self._status))

    def finish(self, outcomes: Sequence[Outcome], results: str = "") -> None:
        """Save the metrics, the results as Markdown, and the table of the stages with their runs."""
        if not all(outcome.built for outcome in outcomes):
            self._status = "FAILED"
        metrics = {
            "seconds": round(time.monotonic() - self._began, 1),
            **{f"stages_{state.lower()}": sum(one.state == state for one in outcomes) for state in ("Ran", "Cached")},
            **headline(self._root, outcomes),
        }
        rows = [outcome.row() for outcome in outcomes]

        def save() -> None:
            from mlflow.entities import Metric

            now = int(1000 * time.time())
            batch = [Metric(store.metric_name(name), value, now, 0) for name, value in metrics.items()]
            self._mlflow.log_batch(self._run_id, metrics=batch)
            if results:
                self._mlflow.log_text(self._run_id, results, "results.md")
            if rows:  # last: what is tried again would add the rows once more
                table = {name: [row[name] for row in rows] for name in rows[0]}
                self._mlflow.log_table(self._run_id, table, "stages.json")

        if self._run_id:
            self._attempt("write the results", save)

    def _open(self) -> None:
        """Begin the run, anew if the store no longer has it."""
        self._mlflow = store.client(self._opened)
        self._opened += 1
        experiment = store.experiment_id(self._mlflow, self._root)
        if self._run_id and self._mlflow.search_runs([experiment], f"attributes.run_id = '{self._run_id}'"):
            return
        store.close_left_open(self._mlflow, experiment, self._root)
        from mlflow.entities import Param

        tags = {"dvc.rev": revision(self._root), "dvc.targets": self._targets, "process": mark()}
        self._run_id = self._mlflow.create_run(experiment, run_name=DRIVER, tags=tags).info.run_id
        self._mlflow.log_batch(self._run_id, params=[Param(key, str(value)) for key, value in self._params.items()])

    def _attempt(self, what: str, action: Callable[[], None]) -> None:
        """Call `action`; if MLflow fails, open it again and try once more."""
        try:
            action()
        except Exception:
            try:
                self._open()
                if action != self._open:
                    action()
            except Exception as error:  # a failure of MLflow must not stop the pipeline
                store.warn(f"could not {what}, going on without it", error)


def key_params(params: Params, steps: Sequence[Step]) -> dict[str, Any]:
    """The parameters by which builds are told apart, of all runs that have a stage in this one."""
    values = {key: attrgetter(key)(params) for key in PARAMS}
    names = {step.address.partition("@")[2] for step in steps}
    for name in [name for name in params.tasks if name in names]:
        own = params.for_run(name)
        values[f"{name}.base"] = params.tasks[name].base
        values |= {f"{name}.{key}": attrgetter(key)(own) for key in RUN_PARAMS}
    return values


def evaluated(outcomes: Sequence[Outcome]) -> list[str]:
    """The runs whose evaluation is there, made in this build or before."""
    addresses = [one.step.address.partition("@") for one in outcomes if one.built]
    return [run for stage, _, run in addresses if stage == "evaluate"]


def headline(root: Path, outcomes: Sequence[Outcome]) -> dict[str, float]:
    """The figures of the evaluated runs by which builds are compared; what an evaluation lacks is left out."""
    values = {}
    for run in evaluated(outcomes):
        figures = flatten(built(root, run, "evaluate").figures)
        values.update({f"{run}.{name}": float(figures[key]) for name, key in FIGURES.items() if key in figures})
    return values


def results_of(root: Path, outcomes: Sequence[Outcome]) -> str:
    """The tables of `castaway results`, for the runs that were evaluated; empty if there is none."""
    from castaway.metrics.results import run_report

    parts = []
    for run in evaluated(outcomes):
        with suppress(CastawayError):  # of a task that has other figures
            parts.append(f"## {run}\n\n{run_report(root, run)}")
    return "\n\n".join(parts)
