"""However DVC and the driver end, no stage lives on, and what was finished is not built again."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable

import psutil
import pytest
from mlflow import MlflowClient

from flows.gpus import slot_name
from flows.pipeline_run import DRIVER
from flows.prefect_server import EPHEMERAL
from tests.flows.conftest import Repository
from tests.flows.running import (
    HELD,
    PrefectServer,
    body_of,
    gpu_holder,
    has_ended,
    runs_of,
    times_begun,
    until,
)

PIPELINE = """\
stages:
  hull:
    cmd: echo oak > data/hull && echo x >> hull.times
    deps: [seed.txt]
    outs: [data/hull]
  base:
    cmd: python -m flows base
    deps: [data/hull]
    params: [seed]
    outs: [data/base, data/figures/base.json, data/runs/base.json]
    metrics:
      - data/metrics/base.json: {cache: false}
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def ship(repository: Callable[[str], Repository]) -> Repository:
    made = repository(PIPELINE)
    made.write("stages/base.py", HELD)
    made.write("seed.txt", "1")
    made.write("data/.gitkeep", "")
    return made


def start(ship: Repository, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    (ship.root / "held/base").unlink(missing_ok=True)  # of the last time
    return ship.start(*arguments, **variables)


def states(ship: Repository, name: str) -> list[str]:
    """The states of the runs of that name, the first first."""
    client = MlflowClient(f"sqlite:///{ship.root}/mlflow.db")
    return [run.info.status for run in runs_of(client, name)]


def assert_goes_on(ship: Repository, *arguments: str, **variables: str) -> None:
    """The same command once more builds what is missing, and nothing else."""
    ship.write("go", "")
    done = ship.run(*arguments, **variables)
    assert done.returncode == 0, done.stderr
    assert (ship.root / "hull.times").read_text() == "x\n"
    assert times_begun(ship) == 3
    assert states(ship, "base") == ["KILLED", "KILLED", "FINISHED"]
    assert "Running stage" not in ship.run("dvc", "repro").stdout


def test_a_stage_ends_with_dvc(ship: Repository) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        dvc = start(ship, "dvc", "repro")
        stage = body_of(ship)
        dvc.send_signal(number)
        dvc.wait()
        assert has_ended(stage)
    assert_goes_on(ship, "dvc", "repro")


def test_a_stage_ends_with_the_driver(ship: Repository, server: PrefectServer) -> None:
    variables = {"PREFECT_API_URL": server.address}
    for number in (signal.SIGTERM, signal.SIGKILL):
        driver = start(ship, "flows", "pipeline", **variables)
        stage = body_of(ship)
        driver.send_signal(number)
        assert driver.wait() == (130 if number == signal.SIGTERM else -number)
        assert has_ended(stage)
    assert_goes_on(ship, "flows", "pipeline", **variables)
    assert states(ship, DRIVER) == ["KILLED", "KILLED", "FINISHED"]
    runs = server.ask("flow_runs/filter", flows={"name": {"any_": ["pipeline"]}}, sort="START_TIME_ASC")
    # A server notices by its heartbeat that a run was killed, some minutes later; see test_remote.py.
    assert [run["state"]["name"] for run in runs][-3:] == ["Cancelled", "Running", "Completed"]


def test_a_stopped_build_is_shown_as_cancelled_by_prefects_own_server(ship: Repository) -> None:
    driver = start(ship, "flows", "pipeline", **{EPHEMERAL: "true"})
    stage = body_of(ship)
    driver.send_signal(signal.SIGINT)
    assert driver.wait() == 130
    assert has_ended(stage)
    with sqlite3.connect(ship.root / "scratch/prefect/prefect.db") as store:
        states = store.execute("SELECT name, state_name FROM flow_run ORDER BY created").fetchall()
    assert states == [("everything", "Cancelled"), ("hull", "Cached"), ("base", "Cancelled")]
    # The processes that watched over the driver's children notice its end by themselves. This process is there too.
    here = str(ship.root)
    until(lambda: {one.pid for one in psutil.process_iter(["cwd"]) if one.info["cwd"] == here} <= {os.getpid()})


GPU = """\
import sys
from castaway.processes import hardware
hardware.visible_devices = lambda: [hardware.Device("cuda", "none")]
from flows.__main__ import main
sys.exit(main(["pipeline"]))"""
"""The driver, on a host that seems to have a GPU."""


def test_ctrl_c_ends_a_stage_that_waits_for_its_gpu(ship: Repository, server: PrefectServer) -> None:
    ship.write("dvc.yaml", "stages:\n  one:\n    cmd: echo x > begun\n    outs: [data/one]\n    meta: {device: cuda}\n")
    other = gpu_holder(server, 0)
    assert other.stdout is not None
    assert "mine\n" in other.stdout
    driver = subprocess.Popen(
        [sys.executable, "-u", "-c", GPU],
        cwd=ship.root,
        env=ship.environment(PREFECT_API_URL=server.address),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None
    waits = f"one  waits for {slot_name('cuda', 0)} on the Prefect server\n"
    assert any(line == waits for line in driver.stdout)
    driver.send_signal(signal.SIGINT)
    assert driver.wait() == 130
    other.communicate("\n")
    assert not (ship.root / "begun").exists()


def test_a_pipeline_is_cancelled_in_prefects_page(ship: Repository, server: PrefectServer) -> None:
    before = {run["id"] for run in server.ask("flow_runs/filter")}
    driver = start(ship, "flows", "pipeline", PREFECT_API_URL=server.address)
    stage = body_of(ship)
    (run,) = [
        run for run in server.ask("flow_runs/filter", flows={"name": {"any_": ["pipeline"]}}) if run["id"] not in before
    ]
    state = {"type": "CANCELLING", "name": "Cancelling"}
    server.ask(f"flow_runs/{run['id']}/set_state", state=state, force=True)
    assert driver.wait() == 130
    assert has_ended(stage)

    def state_now() -> str:
        (now,) = server.ask("flow_runs/filter", flow_runs={"id": {"any_": [run["id"]]}})
        return str(now["state"]["name"])

    until(lambda: state_now() == "Cancelled")
