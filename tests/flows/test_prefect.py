"""Builds that Prefect runs: on a server of the user's, on an embedded one, and on one that is lost."""

import signal
import sqlite3
from collections.abc import Callable

import psutil
import pytest

from flows import gpus
from flows.prefect_server import EPHEMERAL, Once
from flows.steps import RECEIPT
from tests.flows.conftest import BODY, WITHOUT_MLFLOW, Repository
from tests.flows.running import HELD, PrefectServer, body_of, gpu_holder, times_begun, until

PIPELINE = """\
stages:
  base:
    cmd: python -m flows base
    params: [seed]
    outs: [data/base]
  sail:
    cmd: test -e broken && exit 3; cat hull.txt > data/sail && sh receipt.sh
    deps: [hull.txt]
    outs: [data/sail]
  last:
    cmd: cat data/sail > data/last && sh receipt.sh
    deps: [data/base, data/sail]
    outs: [data/last]
"""
WARNING = "warning: going on without Prefect: "


@pytest.fixture
def ship(repository: Callable[[str], Repository]) -> Repository:
    made = repository(PIPELINE)
    made.write("hull.txt", "oak")
    made.write("receipt.sh", f'test -z "${RECEIPT}" || echo "{{}}" > "${RECEIPT}"\n')
    made.write("data/.gitkeep", "")
    made.write("stages/base.py", BODY)
    return made


def variables(ship: Repository, **more: str) -> dict[str, str]:
    """The environment of a user who has set nothing, with an empty home."""
    return {**WITHOUT_MLFLOW, "HOME": str(ship.root / "home"), **more}


@pytest.mark.slow
def test_a_build_is_a_flow_with_a_task_for_each_stage_and_a_flow_of_its_kind(
    ship: Repository, server: PrefectServer
) -> None:
    address = variables(ship, PREFECT_API_URL=server.address)
    ship.write("broken", "")
    assert ship.run("flows", "pipeline", **address).returncode == 2
    tasks = {run["name"]: run for run in server.ask("task_runs/filter")}
    states = {
        name: (tasks[name]["state"]["name"], tasks[name]["state"]["message"]) for name in ("base", "sail", "last")
    }
    assert states["base"] == ("Ran", "new")
    assert states["sail"][0] == "Failed" and "sail failed with exit status" in states["sail"][1]
    assert states["last"] == ("Skipped", "needs sail")
    flows = {run["name"]: run for run in server.ask("flow_runs/filter")}
    ended = {"everything": "FAILED", "base": "COMPLETED", "sail": "FAILED"}
    assert {name: run["state"]["type"] for name, run in flows.items()} == ended
    assert {one["name"] for one in server.ask("flows/filter")} == {"pipeline", "base", "sail"}

    (ship.root / "broken").unlink()
    done = ship.run("flows", "pipeline", **address)
    assert done.returncode == 0, done.stderr
    assert "without Prefect" not in done.stderr
    (later,) = [run for run in server.ask("flow_runs/filter") if run["state"]["message"] == "2 ran, 1 cached"]
    tasks = {run["name"]: run for run in server.ask("task_runs/filter") if run["flow_run_id"] == later["id"]}
    ended = {"base": "Cached", "sail": "Ran", "last": "Ran"}
    assert {name: tasks[name]["state"]["name"] for name in ended} == ended
    needed = {one["id"] for one in tasks["last"]["task_inputs"]["wait_for"]}
    assert needed == {tasks["base"]["id"], tasks["sail"]["id"]}
    lines = [log["message"] for log in server.ask("logs/filter") if log["flow_run_id"] == flows["sail"]["id"]]
    assert "Running stage 'sail':" in lines
    assert [one["key"] for one in server.ask("artifacts/filter")] == ["stages"] * 2
    ship.change("params.yaml", "seed: 1", "seed: 2")
    assert ship.run("flows", "pipeline", "base", **address).returncode == 0
    messages = [run["state"]["message"] for run in server.ask("task_runs/filter") if run["name"] == "base"]
    assert "changed: seed" in messages


def history(ship: Repository) -> list[tuple[str, str]]:
    """The flow runs in the store of the clone: name and state."""
    with sqlite3.connect(ship.root / "scratch/prefect/prefect.db") as store:
        return store.execute("SELECT name, state_name FROM flow_run ORDER BY created").fetchall()


@pytest.mark.slow
def test_without_a_server_prefects_own_is_started_for_a_build_that_has_something_to_run(ship: Repository) -> None:
    own = variables(ship, **{EPHEMERAL: "true"})
    assert ship.run("dvc", "repro", "sail", **own).returncode == 0
    assert not (ship.root / "scratch/prefect").exists()
    done = ship.run("flows", "pipeline", **own)
    assert done.returncode == 0 and "Prefect" not in done.stderr, done.stderr
    assert history(ship) == [("everything", "Completed"), ("base", "Ran"), ("last", "Ran")]
    assert not (ship.root / "home").exists() or not list((ship.root / "home").glob(".prefect*"))
    ship.run("flows", "pipeline", **own)  # nothing changed
    assert len(history(ship)) == 3
    # A build that was killed with its server is shown as crashed by the next one.
    with sqlite3.connect(ship.root / "scratch/prefect/prefect.db") as store:
        store.execute("UPDATE flow_run SET state_type = 'RUNNING', state_name = 'Running' WHERE name = 'everything'")
    ship.write("hull.txt", "pine")
    # What the user has set for another server has no say.
    own["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = "sqlite+aiosqlite:////dev/null/theirs.db"
    own["PREFECT_SERVER_API_AUTH_STRING"] = "admin:pass"
    done = ship.run("flows", "pipeline", "sail", **own)
    assert done.returncode == 0 and "Prefect" not in done.stderr, done.stderr
    assert [state for _, state in history(ship)] == ["Crashed", "Ran", "Ran", "Completed", "Ran"]
    commands = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
    assert not [one for one in commands if str(ship.root) in one]


@pytest.mark.slow
def test_a_server_that_cannot_start_is_one_warning(ship: Repository) -> None:
    ship.write("scratch/prefect/prefect.db/file", "a folder where its database belongs")
    done = ship.run("flows", "pipeline", "sail", **variables(ship, **{EPHEMERAL: "true"}))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"{WARNING}its server did not start") == 1
    assert (ship.root / "data/sail").read_text() == "oak"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "command"), [("embedded", "flows pipeline base"), ("configured", "dvc repro base")])
def test_a_server_that_is_killed_while_a_stage_runs_changes_nothing(
    ship: Repository, server: PrefectServer, kind: str, command: str
) -> None:
    ship.write("stages/base.py", HELD)
    chosen = {"PREFECT_API_URL": server.address} if kind == "configured" else {EPHEMERAL: "true"}
    built = ship.start(*command.split(), **variables(ship, **chosen))
    body_of(ship)
    if kind == "configured":
        server.kill()
    else:
        for one in psutil.Process(built.pid).children(recursive=True):
            if "prefect" in " ".join(one.cmdline()):
                one.send_signal(signal.SIGKILL)
    ship.write("go", "")
    told, _ = built.communicate()
    if kind == "configured":
        server.start()  # for the tests that follow
    assert built.returncode == 0, told
    assert told.count(WARNING) == 1 and "Traceback" not in told, told
    assert times_begun(ship) == 1
    assert "Running stage" not in ship.run("dvc", "repro", "base").stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", [("dvc", "repro", "base"), ("flows", "pipeline", "base")])
def test_a_server_that_is_not_there_changes_nothing(ship: Repository, command: tuple[str, ...]) -> None:
    done = ship.run(*command, **variables(ship, PREFECT_API_URL="http://127.0.0.1:9/api"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(WARNING) == 1
    assert (ship.root / "data/base/weights.txt").exists()


def test_work_is_done_once_whatever_the_engine_raises() -> None:
    done: list[str] = []

    def work() -> str:
        done.append("work")
        return "built"

    def before(once: Once[str]) -> object:
        raise OSError("no server")

    def after(once: Once[str]) -> object:
        once()
        raise OSError("the last state was not told")

    for engine in (before, after, lambda once: once()):
        once = Once(work)
        assert once.through(lambda once=once, engine=engine: engine(once)) == "built"
    assert done == ["work"] * 3

    def stopped() -> str:
        raise KeyboardInterrupt

    once = Once(stopped)
    with pytest.raises(KeyboardInterrupt):
        once.through(lambda: once())


@pytest.mark.slow
def test_a_gpu_is_held_by_one_driver_at_a_time(server: PrefectServer) -> None:
    other = gpu_holder(server, 7)
    assert other.stdout is not None
    assert "mine\n" in other.stdout

    def active() -> int:
        name = gpus.slot_name("cuda", 7)
        (limit,) = [one for one in server.ask("v2/concurrency_limits/filter") if one["name"] == name]
        return int(limit["active_slots"])

    assert active() == 1
    waiting = gpu_holder(server, 7)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == f"ppo@one  waits for {gpus.slot_name('cuda', 7)} on the Prefect server\n"
    other.communicate("\n")
    assert waiting.stdout.readline() == "mine\n"
    server.kill()  # what runs is not stopped, and ends well
    waiting.communicate("\n")
    assert waiting.returncode == 0
    server.start()
    until(lambda: active() in (0, 1))
