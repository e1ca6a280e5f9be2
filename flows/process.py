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
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

GRACE = 10.0
"""Seconds between the request to stop and the end."""

_running: set[Group] = set()


class Group:
    """A command and all its descendants."""

    def __init__(self, command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
        """Start the command; it writes to our own output, so progress bars are seen as they are."""
        environment = {**os.environ, **variables}
        self.process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)
        _running.add(self)

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
    """While this lasts, Ctrl-C and SIGTERM stop every running group, whichever thread waits for it."""

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
