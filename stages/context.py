"""What every stage is handed: its parameters, its folders, and a place to report to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castaway.config.params import Params

Log = Callable[[int, Mapping[str, float]], None]
"""`log(step, values)`: one point of the stage's curves."""

Trace = Callable[[str, Mapping[str, Any], Mapping[str, Any], float, float], None]
"""`trace(name, inputs, outputs, began, ended)`, the times in seconds since 1970."""


def log_nothing(step: int, values: Mapping[str, float]) -> None:
    """A `Log` for processes that leave reporting to the first one."""


def trace_nothing(name: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], began: float, ended: float) -> None:
    """A `Trace` for processes that leave reporting to the first one."""


@dataclass(frozen=True)
class Context:
    """One execution of one stage."""

    root: Path
    """The repository's root."""
    params: Params
    """With what the run sets differently in its place."""
    run: str
    """The run's name, a key of `tasks` in params.yaml; for the stage `base` the name of the base model."""
    base: str
    """The name of the base model that the run starts from."""
    stage: str
    log: Log
    scratch: Path
    """Outside DVC, keyed by the stage's inputs: a killed stage resumes from here. Deleted after success."""
    observe: Log
    """As `log`, but for the MLflow run alone: what two runs with the same result may differ in."""
    trace: Trace
    """One call to something outside, with what went in and what came out; for the MLflow run alone."""

    @property
    def output(self) -> Path:
        """The stage's own folder, empty when the stage begins; byte-deterministic when it ends."""
        return self.folder(self.stage)

    @property
    def verdicts(self) -> Path:
        """Where a teacher keeps answers that were paid for; it outlives the stage, and holds for any inputs."""
        return self.root / "scratch" / "verdicts.sqlite"

    def folder(self, stage: str) -> Path:
        """The folder that `stage` leaves its final artifacts in."""
        return self.root / "data" / (self.base if stage == "base" else self.run) / stage
