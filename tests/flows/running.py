"""Real servers and stages that run until they are told to go on, and how to wait for them."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from flows import alive
from flows.store import EXPERIMENT
from tests.flows.conftest import Repository

DEADLINE = 240.0
"""How long a test waits for something, in seconds; on an idle machine a few are enough."""


def until(condition: Callable[[], object], what: str = "it") -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {DEADLINE:g} seconds"
        time.sleep(0.05)


def runs_of(client: Any, name: str) -> list[Any]:
    """The MLflow runs of that name, the first first."""
    experiment = client.get_experiment_by_name(EXPERIMENT).experiment_id
    named = f"attributes.run_name = '{name}'"
    return list(client.search_runs([experiment], named, order_by=["attributes.start_time ASC"]))


HELD = """
import os, pathlib, time
def run(context):
    here = pathlib.Path("held") / context.stage
    here.parent.mkdir(exist_ok=True)
    here.write_text(str(os.getpid()))
    count = pathlib.Path("held") / f"{context.stage}.times"
    count.write_text(count.read_text() + "x" if count.exists() else "x")
    place = context.scratch / "step"
    begin = int(place.read_text()) if place.exists() else 0
    while not pathlib.Path("go").exists():
        time.sleep(0.05)
    for step in range(begin, 3):
        context.log(step, {"begin": begin})
        place.write_text(str(step + 1))
    (context.output / "weights.txt").write_text(f"{context.stage} {context.params.seed}")
    return {"score": 1}
"""
"""A stage that runs until there is a file `go`, and counts how often it was begun."""


def body_of(repository: Repository, stage: str = "base") -> int:
    """The process of a stage of `HELD`, once it has begun."""
    path = repository.root / "held" / stage
    until(lambda: path.exists() and path.read_text(), f"the start of {stage}")
    return int(path.read_text())


def times_begun(repository: Repository, stage: str = "base") -> int:
    """How often a stage of `HELD` was begun."""
    path = repository.root / "held" / f"{stage}.times"
    return len(path.read_text()) if path.exists() else 0


def has_ended(number: int) -> bool:
    """Whether the process ends in time."""
    until(lambda: not alive.runs(number), f"the end of process {number}")
    return True


class PrefectServer:
    """A real Prefect server that can be killed, and comes back under the same address with what it knew."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = str(probe.getsockname()[1])
        self._home = home
        self.address = f"http://127.0.0.1:{self._port}/api"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        environment = {**os.environ, "PREFECT_HOME": str(self._home)}
        command = [sys.executable, "-m", "prefect", "server", "start", "--no-ui", "--host", "127.0.0.1", "--port"]
        self._process = subprocess.Popen(
            [*command, self._port],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until(self._answers, "the start of the Prefect server")

    def kill(self) -> None:
        """End it at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/health", timeout=1):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def ask(self, path: str, **body: object) -> list[dict[str, Any]]:
        """What `POST path` answers."""
        request = urllib.request.Request(
            f"{self.address}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found

    def states(self, kind: str = "flow_runs") -> dict[str, str]:
        """The name of the state of every run, by the name of the run."""
        return {run["name"]: run["state"]["name"] for run in self.ask(f"{kind}/filter")}


@contextlib.contextmanager
def busy(server: PrefectServer, path: str, times: int) -> Iterator[str]:
    """Context with an address of the server where it does what `POST path` asks, but answers 503 so many times."""
    left = [times]

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            dropped = ("host", "connection", "accept-encoding")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
            place = server.address.removesuffix("/api") + self.path
            request = urllib.request.Request(place, body or None, headers, method=self.command)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    status, kind, found = answer.status, answer.headers.get("Content-Type", ""), answer.read()
            except urllib.error.HTTPError as error:
                status, kind, found = error.code, error.headers.get("Content-Type", ""), error.read()
            if self.command == "POST" and self.path.endswith(path) and left[0]:
                left[0] -= 1
                status = 503
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(found)))
            self.end_headers()
            self.wfile.write(found)

        do_GET = do_POST = do_PATCH = do_DELETE = _forward

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Forward) as front:
        thread = threading.Thread(target=front.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{front.server_address[1]}/api"
        finally:
            front.shutdown()
            thread.join()
        assert not left[0], f"POST {path} was asked too seldom"
