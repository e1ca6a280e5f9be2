"""The driver and its stages with a real Prefect server, and what they do when it is lost."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from flows import pipeline, slots
from flows.prefect_runs import FlowRun
from flows.report import Outcome, Step
from flows.reproduce import run_step
from flows.stage import RECEIPT
from flows.walk import walk
from tests.flows.conftest import BODY, Repository
from tests.flows.running import HELD, PrefectServer, body_of, times_begun, until

pytestmark = pytest.mark.slow

STAMPED = 'echo "begin $1" >> order.txt; cat hull.txt > data/$1; echo "end $1" >> order.txt; sh receipt.sh\n'
PIPELINE = """\
stages:
  first:
    cmd: sh build.sh first
    deps: [hull.txt]
    outs: [data/first]
    meta: {device: cuda}
  second:
    cmd: sh build.sh second
    deps: [hull.txt]
    outs: [data/second]
    meta: {device: cuda}
  last:
    cmd: sh build.sh last
    deps: [data/first, data/second]
    outs: [data/last]
"""
BASE = """\
stages:
  base:
    cmd: python -m flows base
    params: [seed]
    outs: [data/base]
  last:
    cmd: sh build.sh last
    deps: [data/base]
    outs: [data/last]
"""
WARNING = "warning: going on without the Prefect server: "


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    made = PrefectServer(tmp_path_factory.mktemp("prefect"))
    yield made
    made.kill()


@pytest.fixture
def ship(repository: Callable[[str], Repository], empty_store: Path) -> Repository:
    made = repository(PIPELINE)
    made.write("hull.txt", "oak")
    made.write("build.sh", STAMPED)
    made.write("receipt.sh", f'test -z "${RECEIPT}" || echo "{{}}" > "${RECEIPT}"\n')
    made.write("data/.gitkeep", "")
    made.write("stages/base.py", BODY)
    shutil.copy(empty_store, made.root)
    return made


def build(ship: Repository) -> dict[str, Outcome]:
    """What `python -m flows pipeline` does, on a host that has the GPU."""
    steps = pipeline.plan(ship.root, [])

    def run(step: Step, places: Sequence[int]) -> Outcome:
        with slots.occupy(step.device, [0], step.address):
            return run_step(ship.root, step, {})

    with FlowRun("pipeline", "everything", steps=steps) as flow:
        outcomes = walk(steps, run, 1, 2, watchers=[flow])
        flow.finish(outcomes)
    return {outcome.step.address: outcome for outcome in outcomes}


def test_the_driver_is_a_flow_with_a_task_for_each_stage(
    ship: Repository, server: PrefectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", server.address)
    ship.write("hull.txt", "")
    ship.write("build.sh", "exit 1\n")
    broken = build(ship)
    states = {"first": "Failed", "second": "Failed", "last": "Skipped"}
    assert {name: outcome.state for name, outcome in broken.items()} == states
    assert server.states("task_runs") == {**states, "last": "NotReady"}

    # A slot that is not there would be no limit at all: it is made when it is first asked for.
    ship.write("build.sh", STAMPED)
    ship.write("hull.txt", "oak")
    assert {outcome.state for outcome in build(ship).values()} == {"Ran"}
    order = [line.split() for line in (ship.root / "order.txt").read_text().splitlines()]
    # Both wanted the one GPU at once; neither began while the other held it.
    assert [event for event, _ in order] == ["begin", "end"] * 3
    assert order[4][1] == "last"
    assert {outcome.state for outcome in build(ship).values()} == {"Cached"}

    assert sorted(run["state"]["name"] for run in server.ask("flow_runs/filter")) == ["Completed"] * 2 + ["Failed"]
    tasks = server.ask("task_runs/filter")
    assert sorted(run["state"]["name"] for run in tasks) == sorted(
        ["Cached"] * 3 + ["Failed"] * 2 + ["NotReady"] + ["Ran"] * 3
    )
    (needs,) = {len(run["task_inputs"]["needs"]) for run in tasks if run["name"] == "last"}
    assert needs == 2
    assert len(server.ask("artifacts/filter")) == 3


def test_a_stage_is_a_flow_below_its_task(ship: Repository, server: PrefectServer) -> None:
    ship.write("dvc.yaml", BASE)
    done = ship.run("flows", "pipeline", PREFECT_API_URL=server.address)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    (run,) = [run for run in server.ask("flow_runs/filter") if run["name"] == "base"]
    assert (run["state"]["name"], run["tags"]) == ("Completed", ["base"])
    assert run["parent_task_run_id"] in [
        task["id"] for task in server.ask("task_runs/filter") if task["name"] == "base"
    ]
    assert "Running stage 'base'" in (ship.root / "scratch/logs/base.log").read_text()
    (task,) = [task for task in server.ask("task_runs/filter") if task["id"] == run["parent_task_run_id"]]
    assert (task["state"]["name"], task["state"]["message"]) == ("Ran", "new")
    lines = [log["message"] for log in server.ask("logs/filter") if log["task_run_id"] == task["id"]]
    assert "Running stage 'base':" in lines
    ship.change("params.yaml", "seed: 1", "seed: 2")
    assert ship.run("flows", "pipeline", PREFECT_API_URL=server.address).returncode == 0
    states = [task["state"] for task in server.ask("task_runs/filter") if task["name"] == "base"]
    assert "changed: seed" in [state["message"] for state in states]


@pytest.mark.parametrize("command", [("dvc", "repro"), ("flows", "pipeline")])
@pytest.mark.parametrize("back", [False, True])
def test_a_server_that_is_lost_while_a_stage_runs_changes_nothing(
    ship: Repository, server: PrefectServer, command: tuple[str, ...], back: bool
) -> None:
    ship.write("dvc.yaml", BASE)
    ship.write("stages/base.py", HELD)
    earlier = {run["id"] for run in server.ask("flow_runs/filter")}
    built = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ship.root,
        env=ship.environment(PREFECT_API_URL=server.address),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    body_of(ship)
    server.kill()
    if back:
        server.start()
    ship.write("go", "")
    told, errors = built.communicate()
    if not back:
        server.start()  # for the tests that follow
    else:
        later = [run for run in server.ask("flow_runs/filter") if run["id"] not in earlier]
        assert {run["state"]["name"] for run in later} == {"Completed"}
    assert built.returncode == 0, errors
    # Of a server that is back soon the driver may have heard nothing; a stage asks nothing while it runs.
    assert errors.count(WARNING) in ((0, 1) if back else (1,)), errors
    assert "Traceback" not in told + errors
    lock = (ship.root / "dvc.lock").read_text()
    assert "data/base" in lock and "data/last" in lock
    again = ship.run("dvc", "repro")
    assert "Running stage" not in again.stdout
    assert times_begun(ship) == 1
    assert not [path for path in (ship.root / "scratch").glob("*/base/*") if path.is_dir()]


@pytest.mark.parametrize("command", [("dvc", "repro"), ("flows", "base"), ("flows", "pipeline")])
def test_a_server_that_is_not_there_changes_nothing(ship: Repository, command: tuple[str, ...]) -> None:
    ship.write("dvc.yaml", BASE)
    done = ship.run(*command, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(WARNING) == 1
    assert (ship.root / "data/base/weights.txt").exists()


def test_a_lease_that_cannot_be_renewed_stops_no_stage(
    server: PrefectServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", server.address)
    monkeypatch.setattr(slots, "RENEWAL", 0.2)
    entered = threading.Event()

    def active() -> int:
        (limit,) = [
            one for one in server.ask("v2/concurrency_limits/filter") if one["name"] == slots.slot_name("cuda", 7)
        ]
        return int(limit["active_slots"])

    def stage() -> str:
        with slots.occupy("cuda", [7], "ppo@marooned"):
            entered.set()
            assert active() == 1
            server.kill()
            told = ""
            while told.count(WARNING) < 1:
                told += capfd.readouterr().err
            threading.Event().wait(1)  # some more renewals, which fail too
            server.start()
            return told + capfd.readouterr().err

    told = stage()
    assert told.count(WARNING) == 1
    until(lambda: active() == 0)


def test_without_a_server_a_stage_on_a_gpu_runs_without_a_slot(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setattr(slots, "HICCUP", 0.5)
    with slots.occupy("cuda", [0], "ppo@marooned"):
        assert capfd.readouterr().err.count(WARNING) == 1
    monkeypatch.delenv("PREFECT_API_URL")
    with slots.occupy("cuda", [0], "ppo@marooned"):
        assert capfd.readouterr().err == ""
