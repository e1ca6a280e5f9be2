"""Has DVC reproduce one stage, as a process of its own, and says what came of it."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from castaway.config.errors import CastawayError
from castaway.processes.groups import Group, pause, stopping
from castaway.tracking import dvc_stage, records
from flows.locks import wait_for_others
from flows.steps import RECEIPT, Outcome, Step

NAMED = 3  # number of changed inputs that the outcome of a stage names
RETRY_SECONDS = 5.0
UNSAVED = "DVC could not save it (a full disk?); make room, and run it with --force"


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

    `variables` are added to the environment of the stage. With `pull`, what was built is looked for in DVC's remote as
    well. Output goes to `log`, or is printed.
    """
    for attempt in range(1 + step.retries):
        outcome = _reproduce(root, step, variables, force=force, pull=pull, log=log)
        if outcome.state != "Failed" or stopping() or attempt == step.retries:
            break
        print(f"{step.address}  failed, and is tried again ({attempt + 1} of {step.retries})", flush=True)
        pause(RETRY_SECONDS)
    return outcome


def _reproduce(
    root: Path, step: Step, variables: Mapping[str, str], *, force: bool, pull: bool, log: Path | None
) -> Outcome:
    wait_for_others(root, step)
    began = time.monotonic()

    def failed(message: str) -> Outcome:
        return Outcome(step, "Failed", time.monotonic() - began, message)

    with tempfile.TemporaryDirectory(prefix="castaway-") as folder:
        # DVC's exit status does not say whether the stage ran; the stage writes this file when it has finished.
        receipt = Path(folder) / "receipt.json"
        arguments = ["repro", "--single-item", *["--force"] * force, *["--pull"] * pull, step.address]
        try:
            status = dvc(root, arguments, {**variables, RECEIPT: str(receipt)}, log).wait(step.timeout_seconds)
        except TimeoutError:
            minutes = f"{step.timeout_seconds / 60:g} minutes (meta.timeout_minutes in dvc.yaml)"
            return failed(f"{step.address} was stopped after {minutes}")
        ran = receipt.exists()
        if status != 0 and not ran:
            place = log.relative_to(root) if log else "the messages above"
            return failed(f"{step.address} failed with exit status {status}; see {place}")
        if not ran:
            return cached(root, step, time.monotonic() - began)
        lost = "" if status == 0 else rescue(root, step, records.read_json(receipt), log)
        now = dvc_stage.load(root, step.address)
        # Where its copy of a folder did not fit on the disk, DVC itself ends with 0.
        if lost or not now.stage.outs_cached():
            return failed(f"{step.address} ran, but {lost or UNSAVED}")
    why = changes(step.locked, now.locked, force=force)
    return Outcome(step, "Ran", time.monotonic() - began, why, made_by(root, step))


def cached(root: Path, step: Step, seconds: float = 0.0) -> Outcome:
    """The outcome of a step that was unchanged, or restored in `seconds`; git gets what DVC restored."""
    name, _, run = step.address.partition("@")
    records.publish(root, run, name)
    return Outcome(step, "Cached", seconds, record=made_by(root, step))


def made_by(root: Path, step: Step) -> dict[str, Any]:
    return records.record_of(root, step.outs[0]) if step.outs else {}


def changes(before: Mapping[str, str], now: Mapping[str, str], *, force: bool = False) -> str:
    """What made a stage run: the dependencies and parameters whose hash or value in dvc.lock is another one now."""
    if not before:
        return "new"
    changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
    if changed:
        return f"changed: {', '.join(changed[:NAMED])}{more}"
    return "forced" if force else "outputs missing"


def rescue(root: Path, step: Step, ran: dict[str, Any], log: Path | None = None) -> str:
    """Commit a stage that finished although DVC failed, because it could not take its lock again in time.

    Without this, the next `dvc repro` would delete the outputs and run the stage again. `ran` is the record that it
    left as its receipt. Returns why it could not be committed; empty if it was.
    """
    if dvc_stage.load(root, step.address).inputs.stage_key != ran.get("stage_key"):
        return "what it reads was changed meanwhile; build it again"
    return "" if dvc(root, ["commit", "--force", step.address], {}, log).wait(step.timeout_seconds) == 0 else UNSAVED


def dvc(root: Path, arguments: Sequence[str], variables: Mapping[str, str], log: Path | None = None) -> Group:
    """Start DVC so that the `python` in its commands is the one that runs now; it waits for its lock without limit."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", *arguments]
    # Python buffers output to a file, and the display could not show the progress.
    return Group(command, root, {**variables, **({"PYTHONUNBUFFERED": "1"} if log else {}), "PATH": path}, log)


def outcome_of(step: Step, build: Callable[[], Outcome]) -> Outcome:
    """The outcome that `build` returns, or a failed one if it raises an exception."""
    began = time.monotonic()
    try:
        return build()
    except CastawayError as error:
        message = str(error)
    except BaseException as error:  # otherwise the step would have no outcome, and its failure be hidden
        message = f"{step.address} failed: {type(error).__name__}: {error}"
    return Outcome(step, "Failed", time.monotonic() - began, message)
