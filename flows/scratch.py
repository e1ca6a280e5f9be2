"""The folder that a killed stage resumes from.

Its name is the stage key, so the inputs are always the same. It lies in the original repository, also for an experiment
in a temporary copy (`dvc exp run --temp`), which is deleted if the experiment fails; or in a folder that `host.yaml`
names, such as one that several hosts reach: then any of them goes on where another was lost.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from castaway.errors import CastawayError
from castaway.tools.host_file import load_host
from flows import environment
from flows.declared import Declared
from flows.process import GRACE, pause

POLL = 0.2
"""Time between two attempts to lock the folder, in seconds."""


@contextmanager
def scratch_for(stage: Declared) -> Iterator[Path]:
    """Context with the stage's folder, which no other process has meanwhile.

    Raises:
        CastawayError: another process runs the stage with the same inputs in the same repository.
    """
    own, shared = (scratch_folder(root, stage) for root in (stage.root, environment.main_root(stage.root)))
    descriptor, folder = lock(shared), shared
    if descriptor is None and own != shared:
        # The same experiment runs elsewhere, and has the folder.
        descriptor, folder = lock(own), own
    waited = 0.0
    while descriptor is None and waited < 2 * GRACE:
        # One that was stopped may be about to end.
        pause(POLL)
        waited += POLL
        descriptor = lock(folder)
    if descriptor is None:
        raise CastawayError(f"another process runs {stage.address} with the same inputs; wait for it, or stop it")
    try:
        yield folder
    finally:
        os.close(descriptor)


def scratch_folder(root: Path, stage: Declared) -> Path:
    """The folder of a stage with its inputs as they are now, for the repository at `root`."""
    shared = load_host(environment.main_root(root)).checkpoints
    return Path(shared or root / "scratch") / stage.run / stage.name / stage.inputs.stage_key[:12]


def lock(folder: Path) -> int | None:
    """Create and lock the folder; the descriptor that holds the lock, or None if another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:  # deleted since by the process that had it
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.stat().st_ino == os.fstat(descriptor).st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
