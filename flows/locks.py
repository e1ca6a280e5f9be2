"""Who may work where: one driver in a clone, one DVC process in a folder, one process in what a stage resumes from.

DVC's `--wait-for-lock` waits for the lock of the repository only. Where another process uses the folders of a stage,
DVC fails at once.

The scratch folder of a stage is named after its key, so the inputs are always the same. It lies in the original
repository, also for an experiment in a temporary copy (`dvc exp run --temp`), which is deleted if the experiment fails;
or in a folder that `host.yaml` names, such as one that several hosts reach.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from castaway.config.errors import CastawayError
from castaway.processes import environment, groups
from castaway.processes.groups import GRACE, pause
from castaway.processes.host_file import load_host
from castaway.tracking.dvc_stage import DvcStage
from flows.steps import Step

POLL = 0.2  # time between two looks, in seconds


@contextmanager
def driver_lock(root: Path) -> Iterator[bool]:
    """Context in which no other driver builds in this clone; waits for one, and yields whether there was one."""
    path = root / "scratch" / "driver.lock"
    try:
        path.parent.mkdir(exist_ok=True)
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise CastawayError(f"{path} cannot be written ({error.strerror}); make room, or make it writable") from None
    with file:
        told = False
        while not _flock(file.fileno()):
            if not told:
                file.seek(0)
                print(f"waiting for another driver in this clone (process {file.read() or 'unknown'})", flush=True)
                told = True
            pause(POLL)
        # The number only tells others whom they wait for; the kernel frees the lock however this process ends.
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield told


def _flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_others(root: Path, step: Step) -> None:
    """Return once no other DVC process in this clone writes what the step reads, or uses what it writes."""
    told = False
    while (number := blocker(root, step)) is not None:
        if not told:
            print(f"{step.address}  waits for another DVC in this clone (process {number})", flush=True)
            told = True
        pause(POLL)


def blocker(root: Path, step: Step) -> int | None:
    """The number of a running process that DVC's own lock file names for the step's folders; None if there is none."""
    try:
        held = json.loads((root / ".dvc" / "tmp" / "rwlock").read_text(encoding="utf-8"))
        writers = {path: [info] for path, info in held.get("write", {}).items()}
        readers = held.get("read", {})
    except (OSError, ValueError, AttributeError):  # missing, or being written
        return None
    used = _numbers(writers, root, (*step.outs, *step.reads)) + _numbers(readers, root, step.outs)
    return next((number for number in used if _is_dvc(number)), None)


def _is_dvc(number: int) -> bool:
    """Whether a DVC runs under this number; one that was killed stays in the file, and another may have its number."""
    try:
        return groups.runs(number) and any("dvc" in word for word in psutil.Process(number).cmdline())
    except psutil.Error:
        return False


def _numbers(held: dict[str, list[dict[str, Any]]], root: Path, paths: tuple[str, ...]) -> list[int]:
    """The processes that hold one of the paths, or something above or below it."""
    wanted = [root / path for path in paths]
    return [
        int(info["pid"])
        for path, infos in held.items()
        if any(Path(path) == one or one in Path(path).parents or Path(path) in one.parents for one in wanted)
        for info in infos
    ]


@contextmanager
def scratch_for(stage: DvcStage) -> Iterator[Path]:
    """Context with the stage's folder, which no other process has meanwhile."""
    own, shared = (scratch_folder(root, stage) for root in (stage.root, environment.main_root(stage.root)))
    descriptor, folder = lock_folder(shared), shared
    if descriptor is None and own != shared:
        # The same experiment runs elsewhere, and has the folder.
        descriptor, folder = lock_folder(own), own
    waited = 0.0
    while descriptor is None and waited < 2 * GRACE:
        # One that was stopped may be about to end.
        pause(POLL)
        waited += POLL
        descriptor = lock_folder(folder)
    if descriptor is None:
        raise CastawayError(f"another process runs {stage.address} with the same inputs; wait for it, or stop it")
    try:
        yield folder
    finally:
        os.close(descriptor)


def scratch_folder(root: Path, stage: DvcStage) -> Path:
    """The folder of a stage with its inputs as they are now, for the repository at `root`."""
    shared = load_host(environment.main_root(root)).checkpoints
    return Path(shared or root / "scratch") / stage.run / stage.name / stage.inputs.stage_key[:12]


def lock_folder(folder: Path) -> int | None:
    """Create and lock the folder; the descriptor that holds the lock, or None if another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:  # deleted since by the process that had it
        return None
    try:
        if _flock(descriptor) and folder.stat().st_ino == os.fstat(descriptor).st_ino:
            return descriptor
    except FileNotFoundError:
        pass
    os.close(descriptor)
    return None
