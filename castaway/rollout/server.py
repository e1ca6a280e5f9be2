"""Starts a vLLM server, waits until it is ready, and stops it together with all its child processes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_address
from types import FrameType

import httpx

from castaway.config.errors import CastawayError
from castaway.rollout.vllm import Serving, command_line, find_vllm, memory_of, variables

PAUSE = 0.2
"""Time between two checks of the server, in seconds."""
HEALTH_TIMEOUT = 2.0
"""Timeout of a health check, in seconds."""
GRACE = 20.0
"""Time between SIGTERM and SIGKILL, and then until all processes have ended, in seconds."""
QUOTED_LINES = 3
"""Number of log lines that an error message quotes."""

PREFIX = re.compile(r"^\(\w+ pid=\d+\)\s*|^[A-Z]+ \d\d-\d\d [\d:]+ \[[^\]]*\]\s*")
"""What vLLM writes before a message: the process, or the level, time and place."""
ERROR = re.compile(r"\b\w*(Error|Exception)\b")


@contextmanager
def running(serving: Serving, key: str = "", stopping: Callable[[], bool] = lambda: False) -> Iterator[Server]:
    """Context with a server that is ready; at the end, the server and all its processes are stopped in any case.

    Clients must send `key`, unless it is empty. `stopping` is called repeatedly while the server starts; once it
    returns true, KeyboardInterrupt is raised. CastawayError if vLLM is not installed, the port is in use, or the
    server ended or was not ready in time.
    """
    server = Server(serving, key)
    try:
        server.wait_until_ready(stopping)
        yield server
    finally:
        server.stop()


class Server:
    """vLLM in its own process group: the server, its engine, and the engine's workers."""

    def __init__(self, serving: Serving, key: str = "") -> None:
        """Start the server; CastawayError without vLLM, a free port, or a key where other hosts could reach it."""
        python, self.kind = find_vllm(serving.environment)
        if not key and not _is_loopback(serving.host):
            raise CastawayError(
                f"other hosts than this one can reach {serving.host}; set CASTAWAY_TEACHER_KEY to serve there"
            )
        self.serving = replace(serving, port=_claimed(serving.host, serving.port))
        memory = None if self.kind == "cpu" else memory_of(python)
        command = command_line(self.kind, python, self.serving, memory)
        serving.log.parent.mkdir(parents=True, exist_ok=True)
        # vLLM's processes leave their sockets behind where temporary files lie.
        self._temporary = tempfile.TemporaryDirectory(prefix="vllm-", ignore_cleanup_errors=True)
        environment = {**variables(self.kind, python, serving, key, os.environ), "TMPDIR": self._temporary.name}
        with serving.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Otherwise Ctrl-C in a terminal would also reach the server, which may still be in use then.
                start_new_session=True,
            )

    @property
    def address(self) -> str:
        """The base address, `http://HOST:PORT`."""
        host = "127.0.0.1" if self.serving.host == "0.0.0.0" else self.serving.host
        return f"http://{host}:{self.serving.port}"

    @property
    def url(self) -> str:
        """The address for OpenAI clients, `http://HOST:PORT/v1`."""
        return f"{self.address}/v1"

    def wait_until_ready(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Return once the health check succeeds; for errors see `running`."""
        end = time.monotonic() + self.serving.ready_seconds
        # trust_env would use the proxies of the environment, which cannot reach a server on this host.
        with httpx.Client(timeout=HEALTH_TIMEOUT, trust_env=False) as client:
            while not self._is_healthy(client):
                if stopping():
                    raise KeyboardInterrupt
                self._require_alive("before it was ready")
                if time.monotonic() > end:
                    seconds = f"{self.serving.ready_seconds:g} seconds"
                    raise CastawayError(f"vLLM is not ready after {seconds}; {self._last_words()}")

    def watch(self, stopping: Callable[[], bool]) -> None:
        """Return once `stopping` returns true; CastawayError if the server ended by itself."""
        while not stopping():
            self._require_alive("while it was serving")

    def stop(self) -> None:
        """Stop the server and its child processes, and return when none is left."""
        try:
            self._signal(signal.SIGTERM)
            self._ended(GRACE)
        finally:
            self._signal(signal.SIGKILL)  # for processes that SIGTERM did not end
            self.process.wait()
        end = time.monotonic() + GRACE
        # The memory of a GPU is free only after the last process has ended. Signal 0 only asks whether there is one.
        while self._signal(0) and time.monotonic() < end:
            time.sleep(0.02)
        self._temporary.cleanup()

    def _is_healthy(self, client: httpx.Client) -> bool:
        try:
            return client.get(f"{self.address}/health").status_code == 200
        except httpx.HTTPError:
            return False

    def _require_alive(self, when: str) -> None:
        """Wait for `PAUSE` seconds; CastawayError if the server ends, with a message that says `when`."""
        if self._ended(PAUSE):
            status = self.process.returncode
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            raise CastawayError(f"vLLM {how} {when}; {self._last_words()}")

    def _ended(self, timeout: float) -> bool:
        """Whether the server's main process ends within `timeout` seconds."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _signal(self, number: int) -> bool:
        """Send a signal to the process group; returns whether it still has a process."""
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
    """The last lines of a log that name an error, or its last lines if none does; without prefixes and repetitions."""
    lines = [PREFIX.sub("", PREFIX.sub("", line.strip())).strip() for line in log.splitlines()]
    lines = list(dict.fromkeys(line for line in lines if line))
    errors = [line for line in lines if ERROR.search(line)]
    return [line[:300] for line in errors[-QUOTED_LINES:] or lines[-QUOTED_LINES:]]


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Context in which SIGINT, SIGTERM and SIGHUP do not end the process; yields a function that says if one came.

    An exception raised in a signal handler could come after a process has started but before it is stored anywhere, and
    nothing would stop that process.
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
    """The port, or any free one for 0. vLLM does not check this itself: it would share a port with another vLLM."""
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise CastawayError(
            f"port {port} of {host} cannot be used ({error.strerror}); name another with --port, or 0 for any free one"
        ) from None
