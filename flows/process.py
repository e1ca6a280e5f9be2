"""Runs a command in its own process group, so that it can be stopped together with all its child processes.

A stage consists of DVC, a shell, Python and sometimes workers. Prefect's timeouts stop none of them, because a thread
cannot be killed; and stopping only the first process would leave the training running.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

GRACE = 10.0
"""Time between SIGINT and SIGKILL, in seconds."""

_running: set[Group] = set()
"""Groups that `interruptible` has to stop."""


class Group:
    """A command and its child processes."""

    def __init__(self, command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
        """Start the command in `folder`, with additional environment `variables`.

        It inherits standard output and error, so that progress bars appear unchanged.
        """
        environment = {**os.environ, **variables}
        self.process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)
        _running.add(self)

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
    """Context in which Ctrl-C and SIGTERM stop every running group, whichever thread waits for it."""

    def stop_all(number: int, frame: FrameType | None) -> None:
        for group in tuple(_running):
            group.stop()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop_all) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
