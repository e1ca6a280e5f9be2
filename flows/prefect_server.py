"""The Prefect server that a build reports to: the user's, or one that is started for the build's duration.

A server that PREFECT_API_URL or the user's profile names goes first. Otherwise Prefect's own server is started on a
free port of this host. Its database is in scratch/prefect, so that `make ui` shows all builds of the clone. Nothing
that is built depends on a server: it may be away, or be lost at any time.
"""

import json
import logging
import os
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from castaway.config.errors import CastawayError
from castaway.processes.environment import SILENT, importing, main_root, quoted
from castaway.processes.groups import Group, guarded, pause
from castaway.processes.servers import VARIABLE, configured, free_port
from castaway.tracking import store

Result = TypeVar("Result")

START_SECONDS = 90.0  # how long a server may take until it answers; on an idle host with a database it is six seconds
STOP_SECONDS = 10.0  # how long a server may take to end
SETTLE_SECONDS = 10.0  # how long the last reports of a build may take to arrive
TIMEOUT = 5.0  # timeout of one question whether a server answers, in seconds
HOST = "127.0.0.1"
RUNNING: Any = {"type": {"any_": ["RUNNING", "PENDING"]}}  # a filter of Prefect's client
EMPTY = Path(sys.prefix) / "prefect.db"
"""A database with Prefect's tables, made by set-up: its hundred migrations take ten seconds."""
EPHEMERAL = "PREFECT_SERVER_EPHEMERAL_ENABLED"  # Prefect's own setting: false means that no server is to be started
PASSWORD = "PREFECT_SERVER_API_AUTH_STRING"  # the setting of a server

QUIET = {
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_CLIENT_MAX_RETRIES": "2",
    "PREFECT_API_REQUEST_TIMEOUT": "20",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
}
"""What a build says stands on its own screen; a server that is away is told once and not retried for minutes. By its
heartbeat a server knows a run whose process was killed."""


def answers(api: str) -> bool:
    try:
        with urllib.request.urlopen(f"{api}/health", timeout=TIMEOUT):
            return True
    except (urllib.error.URLError, OSError, ValueError):
        return False


def require_server() -> str:
    """The API address of the user's server; CastawayError if it does not answer."""
    if answers(configured()):
        return configured()
    raise CastawayError(
        f"{VARIABLE} is {configured()} but no Prefect server answers there; start it, or set {VARIABLE} to nothing"
    )


def warn(error: object) -> None:
    """Print one line about a server that is away; once in a process."""
    global _warned
    if not _warned:
        words = " ".join(str(error).split())[:200] or type(error).__name__
        print(f"warning: going on without Prefect: {words}", file=sys.stderr, flush=True)
    _warned = True


_warned = False


def home(root: Path) -> Path:
    """The folder of the clone's own Prefect store; that of the original repository for an experiment in a copy."""
    return main_root(root) / "scratch" / "prefect"


def server_variables(root: Path, port: int) -> dict[str, str]:
    return {
        **SILENT,
        **QUIET,
        "PREFECT_HOME": str(home(root)),
        "PREFECT_PROFILES_PATH": str(home(root) / "profiles.toml"),
        # Goes before any name of the setting: the database that the user has set is that of another server.
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{quoted(home(root) / 'prefect.db')}",
        "PREFECT_SERVER_UI_API_URL": f"http://{HOST}:{port}/api",
        VARIABLE: f"http://{HOST}:{port}/api",
        # Whoever starts a server with a password also knows it as a client.
        **({"PREFECT_API_AUTH_STRING": os.environ[PASSWORD]} if os.environ.get(PASSWORD) else {}),
    }


def start_server(root: Path, port: int) -> Group:
    """Start the clone's own server on a port, without waiting until it answers."""
    log = main_root(root) / "scratch" / "logs" / "prefect.log"
    for folder in (log.parent, home(root)):
        folder.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    if EMPTY.exists() and not (home(root) / "prefect.db").exists():
        shutil.copy(EMPTY, home(root))
    # As Prefect starts its own ephemeral server; `prefect server start` would import its whole command line as well.
    command = (sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app")
    options = ("--host", HOST, "--port", str(port), "--log-level", "warning")
    return Group((*command, *options), root, server_variables(root, port), log, lasting=True)


@contextmanager
def for_build(root: Path) -> Iterator[bool]:
    """Context in which this process reports to a server, with Prefect imported; yields whether there is one."""
    if configured():
        reporting = answers(configured())
        if reporting:
            _import_quietly(QUIET)
        else:
            warn(f"no server answers at {configured()}")
        yield reporting
        return
    if os.environ.get(EPHEMERAL, "").lower() in ("0", "false"):
        yield False
        return
    if api := announced(root):
        _import_quietly({**server_variables(root, int(urlsplit(api).port or 0)), VARIABLE: api})
        yield True
        return
    with _embedded(root) as reporting:
        yield reporting


@contextmanager
def _embedded(root: Path) -> Iterator[bool]:
    port = free_port()
    group = start_server(root, port)
    api = f"http://{HOST}:{port}/api"
    with guarded(group.process.pid):
        try:
            _import_quietly(server_variables(root, port))  # takes seconds, while the server starts
            with announcing(root, api):
                started = _wait(group, api)
                if not started:
                    warn("its server did not start; scratch/logs/prefect.log may say why")
                try:
                    if started:
                        close_left_open()
                    yield started
                finally:
                    if started and group.process.poll() is None:
                        settle()
        finally:
            group.stop()
            with suppress(TimeoutError, KeyboardInterrupt):
                group.wait(STOP_SECONDS + 1)


def _wait(group: Group, api: str) -> bool:
    end = time.monotonic() + START_SECONDS
    while not answers(api):
        if group.process.poll() is not None or time.monotonic() > end:
            return False
        pause(0.1)
    return True


def close_left_open() -> None:
    """Mark as crashed what builds have left open that were killed together with their server."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
    from prefect.states import Crashed

    try:
        with get_client(sync_client=True) as client:
            for run in client.read_flow_runs(flow_run_filter=FlowRunFilter(state=RUNNING)):
                client.set_flow_run_state(run.id, Crashed(message="its process was killed"), force=True)
            for task in client.read_task_runs(task_run_filter=TaskRunFilter(state=RUNNING)):
                client.set_task_run_state(task.id, Crashed(message="its process was killed"), force=True)
    except Exception as error:
        warn(error)


def announced(root: Path) -> str:
    """The API address of the clone's own server, if `make ui` runs one now; else empty."""
    with suppress(OSError, ValueError, KeyError):
        api = str(json.loads((home(root) / "server.json").read_text("utf-8"))["api"])
        return api if answers(api) else ""
    return ""


@contextmanager
def announcing(root: Path, api: str) -> Iterator[None]:
    path = home(root) / "server.json"
    path.write_text(json.dumps({"api": api}), "utf-8")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _import_quietly(variables: dict[str, str]) -> None:
    """Import Prefect with these settings, which it reads at its import, and MLflow, which a build needs next."""
    os.environ.update({name: value for name, value in variables.items() if name not in QUIET or name not in os.environ})
    # Prefect's log handler writes to standard error where the server does not take a line.
    logging.raiseExceptions = False
    with importing():
        import mlflow.store.tracking.sqlalchemy_store  # noqa: F401
        import prefect.artifacts
        import prefect.flow_engine
        import prefect.task_engine  # noqa: F401

        with suppress(Exception):  # makes the tables meanwhile; who needs them says what is wrong
            store.client()


class Once(Generic[Result]):
    """A piece of work that runs exactly once: inside Prefect's engine, or without it where the engine fails.

    The engine speaks to a server before and after the work. What it raises there is a warning, and never an outcome.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._begun = False
        self._results: list[Result] = []
        self._error: BaseException | None = None

    def __call__(self) -> Result:
        """Do the work, for the engine."""
        self._begun = True
        try:
            self._results.append(self._work())
        except BaseException as error:
            self._error = error
            raise
        return self.result

    @property
    def result(self) -> Result:
        return self._results[0]

    def through(self, engine: Callable[[], object]) -> Result:
        """The result of the work, done by the engine, which is to call this object."""
        try:
            engine()
        except Exception as error:
            if error is not self._error:
                warn(error)
        if not self._begun:
            self()
        if self._error:
            raise self._error
        return self.result


def settle() -> None:
    """Send what Prefect still keeps to its server, and wait until all task runs are shown as ended."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (APILogWorker, EventsWorker):
        with suppress(Exception):
            thread = threading.Thread(target=worker.drain_all, kwargs={"timeout": SETTLE_SECONDS}, daemon=True)
            thread.start()
            thread.join(SETTLE_SECONDS)
    end = time.monotonic() + SETTLE_SECONDS
    with suppress(Exception):
        while _open_runs() and time.monotonic() < end:
            time.sleep(0.1)


def _open_runs() -> int:
    """How many task runs the server still shows as running, of flow runs that have ended."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter

    ended: Any = {"type": {"any_": ["COMPLETED", "FAILED", "CANCELLED"]}}
    with get_client(sync_client=True) as client:
        runs = client.read_task_runs(
            task_run_filter=TaskRunFilter(state=RUNNING), flow_run_filter=FlowRunFilter(state=ended), limit=1
        )
    return len(runs)
