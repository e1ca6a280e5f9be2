"""Serves the pages of Prefect and MLflow on this host, until it is told to stop: `python -m flows pages`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from castaway.errors import CastawayError
from castaway.tools.doctor.asking import get
from castaway.tools.doctor.ports import is_free
from castaway.tools.prefect_address import address
from flows import process
from flows.environment import SILENT, store_of
from flows.lifeline import guarded
from flows.prefect_server import require_server

READY_SECONDS = 120.0
"""How long a server may take until it answers; on an idle machine it is ten seconds."""
PAUSE = 0.2
"""Time between two looks at the servers, in seconds."""
QUOTED = 3
"""Number of lines of its log that are shown of a server that failed."""


@dataclass(frozen=True)
class Page:
    """A server with a page for people."""

    name: str
    port: int
    command: tuple[str, ...]
    health: str
    """The path that answers with status 200 once the server is ready."""
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables that the server needs."""

    @property
    def address(self) -> str:
        """For a browser on this host."""
        return f"http://127.0.0.1:{self.port}"


def pages(root: Path, mlflow_port: int, prefect_port: int) -> list[Page]:
    """MLflow with the store of the repository, and Prefect, unless the user has a server already."""
    local = ("--host", "127.0.0.1", "--port")
    store = ("--backend-store-uri", store_of(root), "--workers", "1")
    mlflow = (sys.executable, "-m", "mlflow", "ui", *local, str(mlflow_port), *store)
    prefect = (sys.executable, "-m", "prefect", "server", "start", *local, str(prefect_port))
    found = [Page("MLflow", mlflow_port, mlflow, "/health")]
    if not address():
        # The page would ask a server on port 4200.
        asked = ("PREFECT_SERVER_UI_API_URL", f"http://127.0.0.1:{prefect_port}/api")
        found.append(Page("Prefect", prefect_port, prefect, "/api/health", (asked,)))
    return found


def main(root: Path, mlflow_port: int, prefect_port: int) -> int:
    """Start the servers, print their addresses, and serve until Ctrl-C or SIGTERM; returns the exit status.

    Raises:
        CastawayError: a port is taken, a server ended by itself or did not start in time, or the user's Prefect
            server does not answer.
    """
    theirs = require_server() if address() else ""
    wanted = pages(root, mlflow_port, prefect_port)
    for page in wanted:
        if not is_free(page.port):
            variable = "PORT" if page.name == "MLflow" else "PREFECT_PORT"
            raise CastawayError(f"port {page.port} is taken, which {page.name} needs: `make ui {variable}=ANOTHER`")
    with suppress(KeyboardInterrupt, InterruptedError), process.interruptible(), ExitStack() as stack:
        served = [stack.enter_context(serving(page, root)) for page in wanted]
        for one in served:
            one.wait_until_ready()
            print(f"{one.page.name:<8} {one.page.address}", flush=True)
        if theirs:
            print(f"{'Prefect':<8} {theirs.removesuffix('/api')} (your own server)")
        else:
            print(f"To have a build shown in Prefect: export PREFECT_API_URL={wanted[-1].address}/api")
        print("Ctrl-C stops.", flush=True)
        while True:
            process.pause(PAUSE)
            for one in served:
                one.require_alive()
    print("stopped")
    return 0


class Served:
    """A page's server, in a process group of its own."""

    def __init__(self, page: Page, root: Path) -> None:
        """Start the server, without waiting until it is ready."""
        self.page = page
        self.log = root / "scratch" / "logs" / f"{page.name.lower()}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")
        self.group = process.Group(page.command, root, {**SILENT, **dict(page.variables)}, self.log)

    def wait_until_ready(self) -> None:
        """Return once the server answers.

        Raises:
            CastawayError: it ended, or was not ready in time.
        """
        end = time.monotonic() + READY_SECONDS
        while not self._answers():
            process.pause(PAUSE)
            self.require_alive()
            if time.monotonic() > end:
                raise CastawayError(
                    f"{self.page.name} does not answer after {READY_SECONDS:g} seconds; {self._words()}"
                )

    def require_alive(self) -> None:
        """Raise CastawayError if the server has ended."""
        status = self.group.process.poll()
        if status is not None:
            raise CastawayError(f"{self.page.name}'s server ended with status {status}; {self._words()}")

    def _answers(self) -> bool:
        try:
            return get(f"{self.page.address}{self.page.health}").is_success
        except CastawayError:
            return False

    def _words(self) -> str:
        lines = [line.strip() for line in self.log.read_text("utf-8", "replace").splitlines() if line.strip()]
        return f"the end of {self.log}: {' | '.join(lines[-QUOTED:]) or 'nothing'}"


@contextmanager
def serving(page: Page, root: Path) -> Iterator[Served]:
    """Context with the server of a page, which is stopped at its end, and also if this process is killed."""
    served = Served(page, root)
    with guarded(served.group.process.pid):
        try:
            yield served
        finally:
            served.group.stop()
            with suppress(TimeoutError):
                served.group.wait(process.GRACE + 5)
