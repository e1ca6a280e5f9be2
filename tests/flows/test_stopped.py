"""However DVC and the driver end, no stage lives on, and what was finished is not built again."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from flows.report import DRIVER
from tests.flows.conftest import Repository
from tests.flows.running import HELD, PrefectServer, body_of, has_ended, runs_of, times_begun, until

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
    outs: [data/base]
    metrics:
      - data/metrics/base.json: {cache: false}
      - data/runs/base.json: {cache: false}
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def ship(repository: Callable[[str], Repository], empty_store: Path) -> Repository:
    made = repository(PIPELINE)
    made.write("stages/base.py", HELD)
    made.write("seed.txt", "1")
    made.write("data/.gitkeep", "")
    shutil.copy(empty_store, made.root)
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    made = PrefectServer(tmp_path_factory.mktemp("prefect"))
    yield made
    made.kill()


def start(ship: Repository, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", *arguments], cwd=ship.root, env=ship.environment(**variables))


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
    assert times_begun(ship) == 2
    assert states(ship, "base") == ["KILLED", "FINISHED"]
    assert "Running stage" not in ship.run("dvc", "repro").stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stage_ends_with_dvc(ship: Repository, number: signal.Signals) -> None:
    dvc = start(ship, "dvc", "repro")
    stage = body_of(ship)
    dvc.send_signal(number)
    dvc.wait()
    assert has_ended(stage)
    assert_goes_on(ship, "dvc", "repro")


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stage_ends_with_the_driver(
    ship: Repository, server: PrefectServer, number: signal.Signals, shown: bool
) -> None:
    variables = {"PREFECT_API_URL": server.address} if shown else {}
    driver = start(ship, "flows", "pipeline", **variables)
    stage = body_of(ship)
    driver.send_signal(number)
    assert driver.wait() == (130 if number == signal.SIGTERM else -number)
    assert has_ended(stage)
    assert_goes_on(ship, "flows", "pipeline", **variables)
    assert states(ship, DRIVER) == ["KILLED", "FINISHED"]
    if shown:
        runs = server.ask("flow_runs/filter", flows={"name": {"any_": ["pipeline"]}}, sort="START_TIME_ASC")
        ended = [run["state"]["name"] for run in runs][-2:]
        assert ended == ["Cancelled" if number == signal.SIGTERM else "Crashed", "Completed"]


GPU = """\
import sys
from castaway.tools import hardware
hardware.visible_devices = lambda: [hardware.Device("cuda", "none")]
from flows.__main__ import main
sys.exit(main(["pipeline"]))"""
"""The driver, on a host that seems to have a GPU."""


def test_ctrl_c_ends_a_stage_that_waits_for_its_gpu(
    ship: Repository, server: PrefectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", server.address)
    from flows import slots

    ship.write("dvc.yaml", "stages:\n  one:\n    cmd: echo x > begun\n    outs: [data/one]\n    meta: {device: cuda}\n")
    with slots.occupy("cuda", [0], "another"):
        driver = subprocess.Popen(
            [sys.executable, "-u", "-c", GPU], cwd=ship.root, env=ship.environment(), stdout=subprocess.PIPE, text=True
        )
        assert driver.stdout is not None
        waits = f"one  waits for the slot {slots.slot_name('cuda', 0)} of the Prefect server\n"
        assert any(line == waits for line in driver.stdout)
        driver.send_signal(signal.SIGINT)
        assert driver.wait() == 130
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
