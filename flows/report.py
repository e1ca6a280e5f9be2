"""Reports the outcome of every stage in one execution of the pipeline: on the screen, in MLflow and in Prefect."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows import tracking


@dataclass(frozen=True)
class Step:
    """One stage to run."""

    address: str
    upstream: tuple[str, ...]
    """Addresses of the stages that it depends on."""
    device: str
    timeout_seconds: float
    outs: tuple[str, ...]
    """Paths of its cached outputs."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step."""

    step: Step
    state: str
    """`Ran`, `Cached` (restored or unchanged), `Failed`, or `Skipped` (a stage that it needs failed)."""
    seconds: float = 0.0
    message: str = ""
    record: dict[str, Any] = field(default_factory=dict)
    """The record of the run that made the stage's output, now or earlier."""

    def row(self) -> dict[str, str]:
        """The outcome as a row of the table, by column."""
        return {
            "stage": self.step.address,
            "state": self.state,
            "seconds": f"{self.seconds:.1f}",
            "run": str(self.record.get("run_id") or "-"),
            "made": str(self.record.get("began") or "-"),
        }


class Parent:
    """The MLflow run of one execution of the pipeline; the runs of its stages are its children."""

    def __init__(self, root: Path, targets: Sequence[str]) -> None:
        """Prepare the run; `with` opens it."""
        self._root = root
        self._targets = targets
        self._mlflow: Any = None
        self._run_id = ""
        self._status = "FINISHED"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that make the run of a stage a child of this one."""
        return {tracking.PARENT: self._run_id} if self._run_id else {}

    def __enter__(self) -> Parent:
        self._attempt("open a run", self._open)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._status = "FAILED" if issubclass(kind, Exception) else "KILLED"
        if self._run_id:
            self._attempt("close the run", lambda: self._mlflow.set_terminated(self._run_id, self._status))

    def finish(self, outcomes: Sequence[Outcome]) -> None:
        """Save the table of the stages, with the runs that made their outputs."""
        if any(outcome.state == "Failed" for outcome in outcomes):
            self._status = "FAILED"
        rows = [outcome.row() for outcome in outcomes]
        table = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
        if self._run_id and table:
            self._attempt("write a table", lambda: self._mlflow.log_table(self._run_id, table, "stages.json"))

    def _open(self) -> None:
        self._mlflow = tracking.client()
        experiment = tracking.experiment_id(self._mlflow, self._root, "pipeline")
        tags = {"dvc.rev": tracking.revision(self._root), "dvc.targets": " ".join(self._targets) or "everything"}
        self._run_id = self._mlflow.create_run(experiment, run_name="pipeline", tags=tags).info.run_id

    def _attempt(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # a failure of MLflow must not stop the pipeline
            print(f"warning: MLflow could not {what}, going on without it: {error}"[:300], file=sys.stderr)


def show(outcomes: Sequence[Outcome]) -> None:
    """Print the table of the stages."""
    from rich.console import Console
    from rich.table import Table

    table = Table("stage", "state", "seconds", "made by run", "at")
    for outcome in outcomes:
        row = outcome.row()
        table.add_row(row["stage"], row["state"], row["seconds"], row["run"][:12], row["made"][:16])
    Console().print(table)


def show_in_prefect(outcomes: Sequence[Outcome]) -> None:
    """Save the table as an artifact of the current Prefect flow."""
    from prefect.artifacts import create_table_artifact

    create_table_artifact(table=[outcome.row() for outcome in outcomes], key="stages")
