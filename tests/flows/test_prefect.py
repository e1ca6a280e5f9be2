"""The driver and a stage against a real Prefect server, on a port of the loopback device that nobody else has."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from flows import pipeline, slots
from flows.report import Outcome
from flows.stage import RECEIPT
from tests.flows.conftest import BODY, ROOT, WAIT, WAITING, Repository, processes_are_gone

pytestmark = pytest.mark.slow

STAMPED = 'echo "begin $0" >> order.txt; cat hull.txt > data/$0; echo "end $0" >> order.txt; sh receipt.sh\n'
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
  base:
    cmd: python -m flows base
    params: [seed]
    outs: [data/base]
"""


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=1):
            return True
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    address = f"http://127.0.0.1:{port}/api"
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path_factory.mktemp("prefect"))}
    command = [sys.executable, "-m", "prefect", "server", "start", "--no-ui", "--host", "127.0.0.1", "--port", port]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        patience = threading.Event()
        for _ in range(600):
            if answers(address) or process.poll() is not None:
                break
            patience.wait(0.1)
        assert answers(address), "the Prefect server did not start"
        yield address
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def ship(repository: Callable[[str], Repository], empty_store: Path) -> Repository:
    made = repository(PIPELINE)
    made.write("hull.txt", "oak")
    made.write("build.sh", STAMPED.replace("$0", "$1"))
    made.write("receipt.sh", f'test -z "${RECEIPT}" || echo "{{}}" > "${RECEIPT}"\n')
    made.write("data/.gitkeep", "")
    made.write("stages/base.py", BODY)
    shutil.copy(empty_store, made.root)
    return made


def test_the_driver_is_a_flow_with_a_task_for_each_stage(
    ship: Repository, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", server)
    from prefect import get_client

    params = read_params(ROOT / "params.yaml")
    steps = [step for step in pipeline.plan(ship.root, ["last"])]

    def build() -> dict[str, Outcome]:
        outcomes = pipeline.walk_with_prefect(
            steps, lambda step, more: pipeline.run_step(ship.root, step, more), params
        )
        return {outcome.step.address: outcome for outcome in outcomes}

    # A slot that is not there would be no limit at all: the driver insists on it.
    refused = build()
    assert {name: outcome.state for name, outcome in refused.items()} == {
        "first": "Failed",
        "second": "Failed",
        "last": "Skipped",
    }
    assert refused["first"].message == (
        "the Prefect server has no slot castaway-cuda-0; create it with `python -m flows setup`"
    )

    slots.create([slots.slot_name("cuda", 0)])
    slots.create([slots.slot_name("cuda", 0)])
    assert {outcome.state for outcome in build().values()} == {"Ran"}
    order = [line.split() for line in (ship.root / "order.txt").read_text().splitlines()]
    # Both wanted the one GPU at once; neither began while the other held it.
    assert [event for event, _ in order] == ["begin", "end"] * 3
    assert order[4][1] == "last"
    assert {outcome.state for outcome in build().values()} == {"Cached"}

    with get_client(sync_client=True) as client:
        flow = client.read_flow_by_name("pipeline")
        states = [run.state.name for run in client.read_flow_runs() if run.flow_id == flow.id and run.state]
        assert sorted(states) == ["Completed", "Completed", "Failed"]
        assert sorted(run.state.name for run in client.read_task_runs() if run.state) == [
            *(["Cached"] * 3),
            *(["Failed"] * 2),
            "NotReady",
            *(["Ran"] * 3),
        ]


def test_a_stage_is_a_flow_of_its_own(ship: Repository, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", server)
    from prefect import get_client

    done = ship.run("flows", "base")
    assert done.returncode == 0, done.stderr
    with get_client(sync_client=True) as client:
        (run,) = [run for run in client.read_flow_runs() if run.name == "base"]
    assert run.state is not None
    assert run.state.is_completed()
    assert run.tags == ["base"]


def test_stopping_the_driver_stops_the_stage(ship: Repository, server: str) -> None:
    ship.write("dvc.yaml", WAIT)
    ship.write("wait.py", WAITING)
    driver = subprocess.Popen(
        [sys.executable, "-m", "flows", "pipeline"],
        cwd=ship.root,
        env=ship.environment(PREFECT_API_URL=server),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert driver.stdout is not None
    assert any(line == "here\n" for line in driver.stdout)
    driver.send_signal(signal.SIGINT)
    assert driver.wait() == 130
    assert processes_are_gone(ship)


def test_setup_needs_a_server(ship: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with pytest.raises(CastawayError, match="PREFECT_API_URL is not set"):
        slots.main()
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with pytest.raises(CastawayError, match="no Prefect server answers there"):
        slots.create(["castaway-cuda-0"])
