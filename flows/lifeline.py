"""Ends a stage together with DVC and the driver, however those ended.

SIGKILL cannot be handled, and DVC hands SIGTERM on to nobody: without this the stage would go on alone, nobody would
record what it makes, and the next `dvc repro` would delete its folder under it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from flows import torchrun
from flows.process import DRIVER, GRACE

STAGE = "DVC_STAGE"
"""Environment variable that DVC sets for the command of a stage."""


def end_with_starters() -> None:
    """Have this process end soon after DVC, the driver or torchrun's agent, if one of them started it.

    It is stopped by SIGTERM, and by SIGKILL with its child processes if it is still there after `GRACE` seconds.
    """
    # Torchrun gives each process a session of its own, so that whoever kills the agent's group does not reach it.
    numbers = [os.getppid()] if torchrun.is_member() else starters() if STAGE in os.environ else []
    if not numbers or not hasattr(os, "pidfd_open"):
        return
    try:
        watched = [os.pidfd_open(number) for number in numbers]
    except ProcessLookupError:
        sys.exit("stopped: what started this stage has ended")
    threading.Thread(target=_watch, args=(watched,), daemon=True).start()


def starters() -> list[int]:
    """The numbers of DVC's process and of the driver's, as far as they can be known."""
    driver = os.environ.get(DRIVER, "")
    found = [int(driver)] if driver.isdecimal() else []
    for parent in psutil.Process().parents():
        try:
            # DVC sets the variable for its child processes, the shell and the stage, and not for itself.
            if parent.environ().get(STAGE) != os.environ[STAGE]:
                return [*found, parent.pid] if parent.pid != 1 else found
        except psutil.Error:
            return found
    return found


def _watch(watched: list[int]) -> None:
    select.select(watched, [], [])  # a process's descriptor is readable once it has ended
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    for process in [*psutil.Process().children(recursive=True), psutil.Process()]:
        process.kill()


GUARD = """\
import os, select, signal, sys, time
driver, group, grace = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
try:
    select.select([os.pidfd_open(driver)], [], [])
except ProcessLookupError:
    pass
for number in (signal.SIGTERM, signal.SIGKILL):
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        break
    time.sleep(grace)
"""
"""A program that waits for the end of a process, and then stops a process group."""


@contextmanager
def guarded(group: int) -> Iterator[None]:
    """Context in which a process group is stopped if this process is killed; leaving it stops nothing."""
    if not hasattr(os, "pidfd_open"):
        yield
        return
    numbers = [str(os.getpid()), str(group), str(GRACE)]
    guard = subprocess.Popen([sys.executable, "-c", GUARD, *numbers], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        guard.kill()
        guard.wait()
