"""Lets one driver at a time build in a clone, and has a stage wait for other DVC processes that use its folders.

DVC's `--wait-for-lock` waits for the lock of the repository only. Where another process uses the folders of a stage,
DVC fails at once.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from castaway.errors import CastawayError
from flows import alive
from flows.process import pause
from flows.report import Step

POLL = 0.5
"""Time between two looks, in seconds."""


@contextmanager
def turn(root: Path) -> Iterator[None]:
    """Context in which no other driver builds in this clone; waits until the one that does has ended.

    Raises:
        CastawayError: the file of the lock cannot be written.
        InterruptedError: stopped while it waited.
    """
    path = root / "scratch" / "driver.lock"
    try:
        path.parent.mkdir(exist_ok=True)
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise CastawayError(f"{path} cannot be written ({error.strerror}); make room, or make it writable") from None
    with file:
        told = False
        while not _locked(file.fileno()):
            if not told:
                file.seek(0)
                print(f"waiting for another driver in this clone (process {file.read() or 'unknown'})", flush=True)
                told = True
            pause(POLL)
        # The number only tells others whom they wait for; the kernel frees the lock however this process ends.
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_others(root: Path, step: Step) -> None:
    """Return once no other DVC process in this clone writes what the step reads, or uses what it writes.

    Raises:
        InterruptedError: stopped while it waited.
    """
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
        return alive.runs(number) and any("dvc" in word for word in psutil.Process(number).cmdline())
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
