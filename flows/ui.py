"""`make ui`: MLflow's page, Prefect's page with all builds of this clone, and a Run button that builds in it.

The button belongs to two deployments: `pipeline-here` builds targets with what they need, `stage-here` one stage.
Prefect's runner, a process of its own, starts what the page asks for. If the user has a Prefect server, no other is
started, and the deployments are served to that one. Everything ends with this process, also if it is killed.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from castaway.config.errors import CastawayError
from castaway.processes import groups
from castaway.processes.environment import SILENT, store_of
from castaway.processes.groups import Group, guarded
from castaway.processes.servers import VARIABLE, configured, get, is_free
from castaway.tracking.store import runs_page
from flows.logs import last_lines
from flows.prefect_server import announced, announcing, require_server, server_variables, start_server

READY_SECONDS = 300.0
"""How long a server may take until it answers: on an idle machine ten seconds, on one that trains minutes."""
PAUSE = 0.2  # time between two looks at the servers, in seconds
QUOTED = 3  # lines of the log of a server that failed
SERVED = "Castaway's deployments are served"  # the line of the runner's log that says that it is ready
ALONE = "CASTAWAY_ALONE"
"""Environment variable of a runner whose server no build reports to yet: what is open there was killed."""


@dataclass
class Server:
    """A process that serves something until it is stopped, in a process group of its own."""

    name: str
    start: Callable[[], Group]
    log: Path
    address: str = ""  # of its page, for a browser on this host; the runner has none
    health: str = ""  # the path that answers with status 200 once it is ready
    page: str = ""  # what a person opens

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Context in which it runs; it is stopped at the end, and also if this process is killed."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")
        self.group = self.start()
        with guarded(self.group.process.pid):
            try:
                yield
            finally:
                self.group.stop()
                with suppress(TimeoutError):
                    self.group.wait(groups.GRACE + 5)

    def is_ready(self) -> bool:
        """Whether the server answers; the runner, which has no page, whether it says so in its log."""
        if not self.address:
            return SERVED in self.log.read_text("utf-8", "replace")
        try:
            return get(f"{self.address}{self.health}").is_success
        except CastawayError:
            return False

    def require_alive(self) -> None:
        status = self.group.process.poll()
        if status is not None:
            raise CastawayError(f"{self.name}'s server ended with status {status}; {self.words()}")

    def words(self) -> str:
        return f"the end of {self.log}: {' | '.join(last_lines(self.log, QUOTED)) or 'nothing'}"


def servers(root: Path, mlflow_port: int, prefect_port: int) -> list[Server]:
    """MLflow with the store of the repository, Prefect unless the user has a server already, and Prefect's runner."""
    logs = root / "scratch" / "logs"

    def python(log: str, variables: dict[str, str], *words: str) -> Callable[[], Group]:
        return partial(Group, (sys.executable, "-m", *words), root, {**SILENT, **variables}, logs / log)

    store = ("--host", "127.0.0.1", "--port", str(mlflow_port), "--backend-store-uri", store_of(root), "--workers", "1")
    mlflow, prefect = (f"http://127.0.0.1:{port}" for port in (mlflow_port, prefect_port))
    start = python("mlflow.log", {}, "mlflow", "ui", *store)
    services = [Server("MLflow", start, logs / "mlflow.log", mlflow, "/health", runs_page(root, mlflow))]
    variables = {VARIABLE: configured()}
    if not configured():
        variables = server_variables(root, prefect_port) | ({} if announced(root) else {ALONE: "1"})
        start = partial(start_server, root, prefect_port)
        services.append(Server("Prefect", start, logs / "prefect.log", prefect, "/api/health", prefect))
    return [*services, Server("Runner", python("runner.log", variables, "flows.ui"), logs / "runner.log")]


def main(root: Path, mlflow_port: int, prefect_port: int) -> int:
    """Start the servers, print their addresses, and serve until Ctrl-C or SIGTERM; returns the exit status."""
    theirs = require_server() if configured() else ""
    wanted = servers(root, mlflow_port, prefect_port)
    for port, variable in ((mlflow_port, "PORT"), (prefect_port, "PREFECT_PORT"))[: len(wanted) - 1]:
        if not is_free(port):
            name = "MLflow" if variable == "PORT" else "Prefect"
            raise CastawayError(f"port {port} is taken, which {name} needs: `make ui {variable}=ANOTHER`")
    with suppress(KeyboardInterrupt, InterruptedError), groups.interruptible(), ExitStack() as stack:
        *pages, runner = wanted
        for server in pages:
            stack.enter_context(server.serving())
        wait_until_ready(pages)  # the runner asks Prefect's server
        if not theirs:
            stack.enter_context(announcing(root, f"{pages[-1].address}/api"))
        stack.enter_context(runner.serving())
        wait_until_ready([runner])
        if theirs:
            print(f"Prefect  {theirs.removesuffix('/api')} (your own server)")
        print("Deployments -> pipeline-here -> Run builds in this clone, and so does any build in a terminal.")
        print("Ctrl-C stops.", flush=True)
        while True:
            groups.pause(PAUSE)
            for server in wanted:
                server.require_alive()
    print("stopped")
    return 0


def wait_until_ready(started: list[Server]) -> None:
    """Return once all have started; those with a page are printed. CastawayError if one ended or took too long."""
    end = time.monotonic() + READY_SECONDS
    for one in started:
        while not one.is_ready():
            groups.pause(PAUSE)
            one.require_alive()
            if time.monotonic() > end:
                raise CastawayError(f"{one.name} is not ready after {READY_SECONDS:g} seconds; {one.words()}")
        if one.page:
            print(f"{one.name:<8} {one.page}", flush=True)


def serve_deployments() -> None:
    """Make the deployments of this clone, and start their runs one after another, until it is told to stop."""
    import asyncio

    from prefect.runner import Runner
    from prefect.types.entrypoint import EntrypointType

    from flows.pipeline import one_stage, pipeline
    from flows.prefect_server import close_left_open
    from flows.remote import LOST_SECONDS, TAG, watch_workers

    if ALONE in os.environ:
        close_left_open()
    watch_workers()
    runner = Runner(name="make ui", limit=1, heartbeat_seconds=LOST_SECONDS / 3)
    for flow in (pipeline, one_stage):
        name = f"{flow.name}-here"
        deployment: Any = flow.to_deployment(name, tags=[TAG], entrypoint_type=EntrypointType.MODULE_PATH)
        runner.add_deployment(deployment)
    print(SERVED, flush=True)
    asyncio.run(runner.start())


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        serve_deployments()
