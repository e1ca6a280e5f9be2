"""Real servers and stages that run until they are told to go on, and how to wait for them."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from castaway.processes import groups
from castaway.processes.servers import free_port
from castaway.tracking.store import EXPERIMENT
from flows.prefect_server import EMPTY
from tests.flows.conftest import Repository

DEADLINE = 600.0
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
    count = pathlib.Path("held") / f"{context.stage}.times"
    count.write_text(count.read_text() + "x" if count.exists() else "x")
    here.write_text(str(os.getpid()))
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


HOLDER = """
import sys
from flows import gpus
with gpus.occupy("cuda", [int(sys.argv[1])], "ppo@one"):
    print("mine", flush=True)
    input()
"""


def gpu_holder(server: "PrefectServer", index: int) -> subprocess.Popen[str]:
    """A process that takes a GPU, prints "mine", and keeps it until it reads a line."""
    return subprocess.Popen(
        [sys.executable, "-u", "-c", HOLDER, str(index)],
        env={**os.environ, "PREFECT_API_URL": server.address, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


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
    until(lambda: not groups.runs(number), f"the end of process {number}")
    return True


class PrefectServer:
    """A real Prefect server that can be killed, and comes back under the same address with what it knew."""

    def __init__(self, home: Path) -> None:
        self._port = str(free_port())
        self._home = home
        shutil.copy(EMPTY, home)
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
            return httpx.get(f"{self.address}/health", timeout=1).is_success
        except httpx.TransportError:
            return False

    def ask(self, path: str, **body: object) -> list[dict[str, Any]]:
        """What `POST path` answers."""
        return list(answer_of("POST", f"{self.address}/{path}", **body).json())

    def states(self, kind: str = "flow_runs") -> dict[str, str]:
        """The name of the state of every run, by the name of the run; without the tasks that stand for a flow run."""
        runs = [run for run in self.ask(f"{kind}/filter") if not child_of(run)]
        return {run["name"]: run["state"]["name"] for run in runs}


def answer_of(method: str, url: str, **body: object) -> httpx.Response:
    """What a Prefect server answers. While its database is locked, it says 503, and is to be asked again."""
    answers: list[httpx.Response] = []

    def final() -> bool:
        answers.append(httpx.request(method, url, json=body, timeout=30))
        return answers[-1].status_code != httpx.codes.SERVICE_UNAVAILABLE

    until(final, f"an answer to {method} {url}")
    return answers[-1].raise_for_status()


def child_of(run: dict[str, Any]) -> str | None:
    """The id of the flow run that a task run stands for in the graph of its parent."""
    return run["state"].get("state_details", {}).get("child_flow_run_id")


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
            answer = httpx.request(self.command, place, content=body, headers=headers, timeout=30)
            status = answer.status_code
            if self.command == "POST" and self.path.endswith(path) and left[0]:
                left[0] -= 1
                status = 503
            self.send_response(status)
            self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

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
