"""Has DVC reproduce one stage, as a process of its own, and says what came of it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows import declared, records
from flows.process import Group
from flows.report import Outcome, Step
from flows.stage import RECEIPT
from flows.turn import wait_for_others

NAMED = 3
"""Number of changed inputs that the outcome of a stage names."""


def run_step(
    root: Path,
    step: Step,
    variables: Mapping[str, str],
    *,
    force: bool = False,
    pull: bool = False,
    log: Path | None = None,
) -> Outcome:
    """Have DVC reproduce one stage, and report whether it ran, was cached or failed.

    Args:
        root: the root of the repository.
        step: the stage.
        variables: additional environment variables of the stage.
        force: run it even if nothing changed.
        pull: look for what was built in DVC's remote as well.
        log: file for its output; None to print it.
    """
    wait_for_others(root, step)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="castaway-") as folder:
        # DVC's exit status does not say whether the stage ran; the stage writes this file when it has finished.
        receipt = Path(folder) / "receipt.json"
        arguments = ["repro", "--single-item", *["--force"] * force, *["--pull"] * pull, step.address]
        try:
            status = dvc(root, arguments, {**variables, RECEIPT: str(receipt)}, log).wait(step.timeout_seconds)
        except TimeoutError:
            minutes = f"{step.timeout_seconds / 60:g} minutes (meta.timeout_minutes in dvc.yaml)"
            return Outcome(step, "Failed", time.monotonic() - began, f"{step.address} was stopped after {minutes}")
        ran = receipt.exists()
        if status != 0 and not (ran and rescue(root, step, records.read_json(receipt), log)):
            place = log.relative_to(root) if log else "the messages above"
            message = f"{step.address} failed with exit status {status}; see {place}"
            return Outcome(step, "Failed", time.monotonic() - began, message)
        if not ran:
            return cached(root, step, time.monotonic() - began)
        now = declared.load(root, step.address)
        if not now.stage.outs_cached():
            # DVC itself ends with 0 then: its copy did not fit on the disk.
            message = "ran, but DVC could not save it (a full disk?); make room, and run it with --force"
            return Outcome(step, "Failed", time.monotonic() - began, f"{step.address} {message}")
    return Outcome(step, "Ran", time.monotonic() - began, changes(step.locked, now.locked), made_by(root, step))


def cached(root: Path, step: Step, seconds: float = 0.0) -> Outcome:
    """The outcome of a step that was unchanged, or restored in so many seconds."""
    return Outcome(step, "Cached", seconds, record=made_by(root, step))


def made_by(root: Path, step: Step) -> dict[str, Any]:
    """The record of the run that made the outputs of a step; empty if there is none."""
    return records.record_of(root, step.outs[0]) if step.outs else {}


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What made a stage run: the dependencies and parameters whose hash or value in dvc.lock is another one now."""
    if not before:
        return "new"
    changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
    return f"changed: {', '.join(changed[:NAMED])}{more}" if changed else "outputs missing, or forced"


def rescue(root: Path, step: Step, ran: dict[str, Any], log: Path | None = None) -> bool:
    """Commit a stage that finished although DVC failed, because it could not take its lock again in time.

    Without this, the next `dvc repro` would delete the outputs and run the stage again.

    Args:
        root: the root of the repository.
        step: the stage.
        ran: the record that the stage left as its receipt.

    Returns:
        Whether the stage was committed. It is not if its inputs have changed since it read them.
    """
    if declared.load(root, step.address).inputs.stage_key != ran.get("stage_key"):
        return False
    return dvc(root, ["commit", "--force", step.address], {}, log).wait(step.timeout_seconds) == 0


def dvc(root: Path, arguments: Sequence[str], variables: Mapping[str, str], log: Path | None = None) -> Group:
    """Start DVC so that the `python` in its commands is the one that runs now.

    `--wait-for-lock` has no time limit. By default DVC waits 3 seconds, less than another stage may need for hashing.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", *arguments]
    # Python buffers output to a file, and the display could not show the progress.
    unbuffered = {"PYTHONUNBUFFERED": "1"} if log else {}
    return Group(command, root, {**variables, **unbuffered, "PATH": path}, log)
