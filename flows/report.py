"""Reports the outcome of every stage in one execution of the pipeline: on the screen and in MLflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from castaway.errors import CastawayError
from flows import alive, store, tracking
from flows.revision import revision

POOL = "pool "
"""What the device of a step begins with that is sent to a work pool; the name of the pool follows."""
DRIVER = "pipeline"
"""The name of the driver's runs."""


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
    reads: tuple[str, ...] = ()
    """Paths of the data that it depends on."""
    locked: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What dvc.lock said of its dependencies before, see `flows.declared`."""
    processes: int = 1
    """How many processes of this host train it together; each takes a place on the CPU, or a GPU."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step."""

    step: Step
    state: str
    """`Ran`, `Cached` (restored or unchanged), `Failed`, or `Skipped` (a stage that it needs failed)."""
    seconds: float = 0.0
    message: str = ""
    """Of a step that failed or was skipped: why. Of one that ran: what had changed."""
    record: dict[str, Any] = field(default_factory=dict)
    """The record of the run that made the stage's output, now or earlier."""

    @property
    def built(self) -> bool:
        """Whether the outputs are known to be there."""
        return self.state in ("Ran", "Cached")

    def row(self) -> dict[str, str]:
        """The outcome as a row of the table, by column."""
        return {
            "stage": self.step.address,
            "state": self.state,
            "seconds": f"{self.seconds:.1f}",
            "why": self.message,
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
        self._opened = 0
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

    def finish(self, outcomes: Sequence[Outcome], results: str = "") -> None:
        """Save the table of the stages, with the runs that made their outputs, and the results as Markdown."""
        if not all(outcome.built for outcome in outcomes):
            self._status = "FAILED"
        rows = [outcome.row() for outcome in outcomes]
        table = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
        if self._run_id and table:
            self._attempt("write a table", lambda: self._mlflow.log_table(self._run_id, table, "stages.json"))
        if self._run_id and results:
            self._attempt("write the results", lambda: self._mlflow.log_text(self._run_id, results, "results.md"))

    def _open(self) -> None:
        """Begin the run, anew if the store no longer has it."""
        self._mlflow = store.client(self._opened)
        self._opened += 1
        experiment = store.experiment_id(self._mlflow, self._root)
        if self._run_id and self._mlflow.search_runs([experiment], f"attributes.run_id = '{self._run_id}'"):
            return
        tracking.close_left_open(self._mlflow, experiment, self._root)
        tags = {
            "dvc.rev": revision(self._root),
            "dvc.targets": " ".join(self._targets) or "everything",
            "process": alive.mark(),
        }
        self._run_id = self._mlflow.create_run(experiment, run_name=DRIVER, tags=tags).info.run_id

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
                tracking.warn(f"could not {what}, going on without it", error)


def results_of(root: Path, outcomes: Sequence[Outcome]) -> str:
    """The tables of `castaway results`, for the runs that were evaluated; empty if there is none."""
    from castaway.metrics.results import run_report

    parts = []
    for stage, _, run in (one.step.address.partition("@") for one in outcomes if one.built):
        if stage == "evaluate":
            with suppress(CastawayError):  # of a task that has other figures
                parts.append(f"## {run}\n\n{run_report(root / 'data' / run / 'metrics')}")
    return "\n\n".join(parts)


def show(outcomes: Sequence[Outcome]) -> None:
    """Print the table of the stages."""
    from rich.console import Console
    from rich.table import Table

    table = Table("stage", "state", "seconds", "why", "made by run", "at")
    for outcome in outcomes:
        row = outcome.row()
        # The message of a failure is told in full elsewhere.
        why = "" if outcome.state == "Failed" else row["why"]
        table.add_row(row["stage"], row["state"], row["seconds"], why, row["run"][:12], row["made"][:16])
    Console().print(table)
