"""Runs a command in its own process group, so that it can be stopped together with all its child processes.

A stage consists of DVC, a shell, Python and sometimes workers. Prefect's timeouts stop none of them, because a thread
cannot be killed; and stopping only the first process would leave the training running.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType

DRIVER = "CASTAWAY_DRIVER"
"""Environment variable with the number of the process that started a group; its stage ends when that has ended."""

GRACE = 10.0
"""Time between SIGINT and SIGKILL, in seconds."""

_running: set[Group] = set()
"""Groups that `interruptible` has to stop."""
_stopping = False
"""Set before the running groups are stopped; a new group checks it after it was added, so that none is missed."""


class Group:
    """A command and its child processes."""

    def __init__(
        self, command: Sequence[str], folder: Path, variables: Mapping[str, str], log: Path | None = None
    ) -> None:
        """Start the command in `folder`, with additional environment `variables`.

        Its output is appended to `log`. Without one it inherits standard output and error, so that progress bars appear
        unchanged.

        Raises:
            InterruptedError: all groups are being stopped.
        """
        if stopping():
            raise InterruptedError("stopped before it started")
        environment = {**os.environ, **variables, DRIVER: str(os.getpid())}
        with log.open("ab") if log else nullcontext() as output:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL if log else None,
                stdout=output,
                stderr=subprocess.STDOUT if log else None,
                start_new_session=True,
            )
        _running.add(self)
        if stopping():
            self.stop()

    def wait(self, timeout: float) -> int:
        """Wait for the command to end, and return its exit status.

        Args:
            timeout: in seconds.

        Raises:
            TimeoutError: the command took longer; it has been stopped.
        """
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            self.process.wait()
            raise TimeoutError from None
        except BaseException:
            self.stop()
            self.process.wait()
            raise
        finally:
            if self.process.poll() is not None:
                self._signal(signal.SIGKILL)  # child processes that are still running
                _running.discard(self)

    def stop(self) -> None:
        """Send SIGINT to the whole group, and SIGKILL after `GRACE` seconds; returns at once."""
        # As Ctrl-C in a terminal does: DVC then waits for its stage and releases its locks.
        self._signal(signal.SIGINT)
        killer = threading.Timer(GRACE, self._signal, [signal.SIGKILL])
        killer.daemon = True
        killer.start()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return


@contextmanager
def interruptible() -> Iterator[None]:
    """Context in which Ctrl-C and SIGTERM stop every running group, whichever thread waits for it.

    Closing the terminal (SIGHUP) stops them too, unless the driver was started with nohup. This needs a handler, since
    the groups are not in the terminal's session.
    """
    global _stopping

    def stop(number: int, frame: FrameType | None) -> None:
        stop_all()
        raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)
    _stopping = False
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _stopping = False


@contextmanager
def stopped_together() -> Iterator[None]:
    """Context that stops every running group if an exception leaves it, so that the threads waiting for them end."""
    try:
        yield
    except BaseException:
        if not stopping():
            stop_all()
        raise


def stop_all() -> None:
    """Stop every running group, and prevent new ones from starting."""
    global _stopping
    _stopping = True
    for group in tuple(_running):
        group.stop()


def stopping() -> bool:
    """Whether all groups are being stopped."""
    return _stopping


def pause(seconds: float) -> None:
    """Wait for so many seconds.

    Raises:
        InterruptedError: all groups are being stopped.
    """
    # No `Event`: a signal handler that sets it while the main thread holds its lock would wait for ever.
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if _stopping:
            raise InterruptedError("stopped while it waited")
        time.sleep(min(left, 0.1))
