"""Runs a command in a process group of its own, so that it can be stopped with everything that it started.

A stage is DVC, a shell, Python and perhaps workers. Prefect's own timeouts end none of them (a thread cannot be
killed), and ending only the first would leave a training running that nobody waits for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType

GRACE = 10.0
"""Seconds between the request to stop and the end."""

_running: set[Group] = set()
_stopping = False
"""Set before the running groups are stopped; a group looks at it once it is among them, so that none is missed."""


class Group:
    """A command and all its descendants."""

    def __init__(
        self, command: Sequence[str], folder: Path, variables: Mapping[str, str], log: Path | None = None
    ) -> None:
        """Start the command; without a log it writes to our own output, so progress bars are seen as they are.

        Raises:
            InterruptedError: everything is being stopped.
        """
        if stopping():
            raise InterruptedError("stopped before it started")
        environment = {**os.environ, **variables}
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
        """The exit status.

        Raises:
            TimeoutError: if the command took longer, after it was stopped.
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
                self._signal(signal.SIGKILL)  # whoever outlived the command
                _running.discard(self)

    def stop(self) -> None:
        """Interrupt the whole group, as Ctrl-C in a terminal does: DVC then waits for its stage and frees its locks."""
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
    """While this lasts, Ctrl-C and SIGTERM stop every running group, whichever thread waits for it.

    So does the end of the terminal, for the groups are not in its session, unless nohup is there to prevent it.
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
    """An exception that leaves this stops every running group: the threads that wait for them then end too."""
    try:
        yield
    except BaseException:
        if not stopping():
            stop_all()
        raise


def stop_all() -> None:
    """Stop every running group, and let no other start."""
    global _stopping
    _stopping = True
    for group in tuple(_running):
        group.stop()


def stopping() -> bool:
    """Whether everything is being stopped."""
    return _stopping
