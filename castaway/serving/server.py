"""A vLLM server for as long as it is needed: started, waited for, and stopped with everything that it started."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_address
from types import FrameType

import httpx

from castaway.errors import CastawayError
from castaway.serving.vllm import Serving, command_line, find_vllm, variables

PAUSE = 0.2
"""Seconds between two looks at the server."""
PATIENCE = 2.0
"""Seconds that it may take to say that it is well."""
GRACE = 20.0
"""Seconds between the request to stop and the end."""
QUOTED = 3
"""Lines of the log in a message."""

PREFIX = re.compile(r"^\(\w+ pid=\d+\)\s*|^[A-Z]+ \d\d-\d\d [\d:]+ \[[^\]]*\]\s*")
ERROR = re.compile(r"\b\w*(Error|Exception)\b")


@contextmanager
def running(serving: Serving, key: str = "", stopping: Callable[[], bool] = lambda: False) -> Iterator[Server]:
    """A server that answers; it is gone, with all its processes, when this ends, however it ends.

    Args:
        serving: what is served.
        key: what clients have to show; none if it is empty.
        stopping: asked again and again while the server starts; KeyboardInterrupt ends the wait when it is true.

    Raises:
        CastawayError: there is no vLLM, the port is taken, or the server ended or was not ready in time.
    """
    server = Server(serving, key)
    try:
        server.wait_until_ready(stopping)
        yield server
    finally:
        server.stop()


class Server:
    """vLLM in a process group of its own: the server, its engine, and the engine's workers."""

    def __init__(self, serving: Serving, key: str = "") -> None:
        """Start it, without waiting."""
        python, self.kind = find_vllm(serving.environment)
        if not key and not _is_loopback(serving.host):
            raise CastawayError(
                f"others than this host can reach {serving.host}; set CASTAWAY_TEACHER_KEY to serve there"
            )
        self.serving = replace(serving, port=_claimed(serving.host, serving.port))
        serving.log.parent.mkdir(parents=True, exist_ok=True)
        with serving.log.open("wb") as log:
            self.process = subprocess.Popen(
                command_line(self.kind, python, self.serving),
                env=variables(self.kind, python, serving, key, os.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C in a terminal is ours to hear; it would reach a server in our group while it is in use.
                start_new_session=True,
            )

    @property
    def address(self) -> str:
        """Where it listens."""
        host = "127.0.0.1" if self.serving.host == "0.0.0.0" else self.serving.host
        return f"http://{host}:{self.serving.port}"

    @property
    def url(self) -> str:
        """As OpenAI's clients take it."""
        return f"{self.address}/v1"

    def wait_until_ready(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Return when it says that it is well."""
        end = time.monotonic() + self.serving.ready_seconds
        # The environment's proxies are not for a server of this host.
        with httpx.Client(timeout=PATIENCE, trust_env=False) as client:
            while not self._is_well(client):
                if stopping():
                    raise KeyboardInterrupt
                self._require_alive("before it was ready")
                if time.monotonic() > end:
                    seconds = f"{self.serving.ready_seconds:g} seconds"
                    raise CastawayError(f"vLLM is not ready after {seconds}; {self._last_words()}")

    def watch(self, stopping: Callable[[], bool]) -> None:
        """Return when it is to stop.

        Raises:
            CastawayError: it ended by itself.
        """
        while not stopping():
            self._require_alive("while it was serving")

    def stop(self) -> None:
        """End it and all that it started; done when no process of it is left."""
        try:
            self._signal(signal.SIGTERM)
            self._ended(GRACE)
        finally:
            self._signal(signal.SIGKILL)  # whoever outlived the request
            self.process.wait()
        end = time.monotonic() + GRACE
        while self._signal(0) and time.monotonic() < end:  # a GPU is free again when the last of them is gone
            time.sleep(0.02)

    def _is_well(self, client: httpx.Client) -> bool:
        try:
            return client.get(f"{self.address}/health").status_code == 200
        except httpx.HTTPError:
            return False

    def _require_alive(self, when: str) -> None:
        """Pause for a moment, which ends at once if the server does."""
        if self._ended(PAUSE):
            status = self.process.returncode
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            raise CastawayError(f"vLLM {how} {when}; {self._last_words()}")

    def _ended(self, timeout: float) -> bool:
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _signal(self, number: int) -> bool:
        """Whether there was anybody to get it."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return False
        return True

    def _last_words(self) -> str:
        lines = last_words(self.serving.log.read_bytes()[-65536:].decode("utf-8", "replace"))
        quoted = " | ".join(lines) or "nothing"
        return f"the end of its log, {self.serving.log}, says: {quoted}"


def last_words(log: str) -> list[str]:
    """The last lines that name an error, else the last lines: what went wrong, without the frames of the traceback."""
    lines = [PREFIX.sub("", PREFIX.sub("", line.strip())).strip() for line in log.splitlines()]
    lines = list(dict.fromkeys(line for line in lines if line))
    return [line[:300] for line in [line for line in lines if ERROR.search(line)][-QUOTED:] or lines[-QUOTED:]]


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """While this lasts, Ctrl-C, SIGTERM and a closed terminal are only noted; the function tells whether one came.

    An exception out of a signal handler could come between the start of a process and the moment that it is known.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _claimed(host: str, port: int) -> int:
    """The port, or any free one for 0. vLLM itself would share a port that another vLLM listens on."""
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise CastawayError(
            f"port {port} of {host} cannot be had ({error.strerror}); name another with --port, or 0 for any free one"
        ) from None
