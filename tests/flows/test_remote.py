"""Stages that are built on other machines: a Prefect server, workers with clones and caches of their own, a remote."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml

from castaway.config.errors import CastawayError
from castaway.tracking.records import is_record
from flows.remote import carry_out, order_of
from tests.flows.conftest import ROOT, Repository
from tests.flows.running import DEADLINE, PrefectServer, answer_of, busy, until

pytestmark = pytest.mark.slow

PIPELINE = """\
stages:
  first:
    cmd: sh build.sh first
    deps: [hull.txt, build.sh]
    outs: [data/first]
  base:
    cmd: python -m flows base
    params: [seed]
    deps: [data/first]
    outs: [data/base, data/figures/base.json, data/runs/base.json]
    metrics: [{data/metrics/base.json: {cache: false}}]
  last:
    cmd: sh build.sh last
    deps: [data/base, build.sh]
    outs: [data/last]
"""
BUILD = "mkdir -p data; cat hull.txt > data/$1; test $1 = first || cat data/base/* >> data/$1\n"
QUICK = """
import os
def run(context):
    (context.output / "weights.txt").write_text(f"weights {context.params.seed}")
    where = os.environ.get("CASTAWAY_CLONE", "here")
    with open(os.environ["BUILT"], "a") as file:
        file.write(where.rpartition("/")[2] + " ")
    return {"score": 1}
"""


@pytest.fixture
def ship(repository: Callable[[str], Repository], tmp_path: Path) -> Repository:
    """The driver's clone, with DVC's remote in a folder that all can reach, and everything committed."""
    made = repository(PIPELINE)
    made.write("hull.txt", "oak")
    made.write("build.sh", BUILD)
    made.write("stages/base.py", QUICK)
    made.write("data/.gitkeep", "")
    run = made.run("dvc", "remote", "add", "-d", "shared", str(tmp_path / "remote"))
    assert run.returncode == 0, run.stderr
    made.commit()
    made.write("host.yaml", "pools: {base: cpu}\n")
    return made


def clone_of(ship: Repository, name: str) -> Repository:
    """A clone with a cache of its own."""
    place = ship.root.parent / name
    subprocess.run(["git", "clone", "--quiet", str(ship.root), str(place)], check=True)
    return Repository(place)


class Worker:
    """A worker of the pool `cpu`, with a clone of its own."""

    def __init__(self, ship: Repository, server: PrefectServer, name: str, host: str = "") -> None:
        self.clone = clone_of(ship, name)
        self.clone.write("host.yaml", host)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "prefect", "worker", "start", "--pool", "cpu", "--type", "process", "--name", name],
            cwd=self.clone.root,
            env=self.clone.environment(
                CASTAWAY_CLONE=str(self.clone.root),
                PREFECT_API_URL=server.address,
                PREFECT_WORKER_QUERY_SECONDS="1",
                BUILT=str(ship.root.parent / "built"),
            ),
            stdout=(ship.root.parent / f"{name}.log").open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def kill(self) -> None:
        """End the worker and all that it has started, at once, as if its machine were switched off."""
        try:
            family = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for one in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module", autouse=True)
def pools(server: PrefectServer) -> None:
    """The pools of workers, and the deployments in prefect.yaml."""
    for command in (
        ("work-pool", "create", "--type", "process", "--overwrite", "cpu"),
        ("work-pool", "create", "--type", "process", "--overwrite", "mi300x"),
        ("--no-prompt", "deploy", "--all"),
    ):
        done = Repository(ROOT).run("prefect", *command, PREFECT_API_URL=server.address)
        assert done.returncode == 0, done.stdout + done.stderr


def test_an_order_is_carried_out_in_another_clone_and_comes_back_through_the_remote(
    ship: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BUILT", str(tmp_path / "built"))
    assert ship.run("dvc", "repro", "first").returncode == 0
    assert ship.run("dvc", "push", "data/first").returncode == 0
    order = order_of(ship.root, "base", force=False)
    other = clone_of(ship, "other")
    monkeypatch.chdir(other.root)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    log = tmp_path / "log"
    assert carry_out(other.root, **order, log=log).state == "Ran"
    assert (tmp_path / "built").read_text() == "here "
    done = ship.run("dvc", "repro", "--single-item", "--pull", "base")
    assert done.returncode == 0, done.stderr
    assert "Running stage" not in done.stdout
    assert (ship.root / "data/base/weights.txt").read_text() == "weights 1"
    assert all((ship.root / f"data/{kind}/base.json").exists() for kind in ("metrics", "figures", "runs"))
    # What is not in the commit cannot be sent, and a commit that a worker cannot get cannot be built.
    ship.write("stages/base.py", QUICK + "\n")
    with pytest.raises(
        CastawayError, match=r"^base cannot be sent to a worker: stages/base.py is not committed; commit and push it"
    ):
        order_of(ship.root, "base", force=False)
    with pytest.raises(CastawayError, match=r"^commit 1234567890 is not in .*; push it there, and build again$"):
        carry_out(other.root, "base", "1234567890" * 4, {}, force=False, log=log)


def test_a_stage_is_built_by_a_worker_and_the_driver_goes_on(ship: Repository, server: PrefectServer) -> None:
    built = ship.root.parent / "built"
    variables = {"PREFECT_API_URL": server.address, "BUILT": str(built)}
    worker = Worker(ship, server, "one")
    try:
        # The server takes the stage and then says that it is busy: the stage is offered again, and built once.
        with busy(server, "/create_flow_run", times=1) as address:
            done = ship.run("flows", "pipeline", **{**variables, "PREFECT_API_URL": address})
            assert done.returncode == 0, done.stdout + done.stderr + (ship.root.parent / "one.log").read_text()
        assert "base  sent to the pool cpu" in done.stdout
        assert built.read_text() == "one "
        sent = [one for one in server.ask("flow_runs/filter") if one["deployment_id"]]
        assert [one["name"] for one in sent] == ["base"]
        again = ship.run("flows", "pipeline", **variables)
        assert again.returncode == 0 and "sent to" not in again.stdout
        forced = ship.run("flows", "pipeline", "base", "--force", **variables)
        assert forced.returncode == 0 and "base  sent to the pool cpu" in forced.stdout, forced.stdout + forced.stderr
        assert built.read_text() == "one one "
    finally:
        worker.kill()
    # One machine gives the same bytes.
    alone = clone_of(ship, "alone")
    assert alone.run("flows", "pipeline", **variables).returncode == 0
    locks = [yaml.safe_load((one.root / "dvc.lock").read_text())["stages"] for one in (ship, alone)]
    made = [
        [out for name in ("first", "base", "last") for out in lock[name]["outs"] if not is_record(out["path"])]
        for lock in locks
    ]
    assert made[0] == made[1]


LONG = """
import pathlib, time
def run(context):
    place = context.scratch / "step"
    begin = int(place.read_text()) if place.exists() else 0
    place.write_text(str(begin + 1))
    pathlib.Path("begun").write_text(str(begin))
    while begin == 0:
        time.sleep(0.05)
    (context.output / "weights.txt").write_text(f"went on from step {begin}")
    return {"score": 1}
"""
"""A stage that writes a checkpoint and does not end, unless it goes on from one."""


def test_a_worker_that_is_lost_is_replaced_and_its_checkpoint_used(ship: Repository, server: PrefectServer) -> None:
    ship.write("stages/base.py", LONG)
    ship.commit()
    shared = f"checkpoints: {ship.root.parent / 'checkpoints'}\n"
    first = Worker(ship, server, "first", shared)
    driver = ship.start("flows", "pipeline", "base", PREFECT_API_URL=server.address)
    workers = [first]
    try:
        until(lambda: (first.clone.root / "begun").exists(), "the start of the stage")
        first.kill()
        killed = time.monotonic()
        workers.append(second := Worker(ship, server, "second", shared))
        until(lambda: (second.clone.root / "begun").exists(), "the start of the stage on the other worker")
        print(f"{time.monotonic() - killed:.0f} seconds from SIGKILL to the start on the other worker")
        told, _ = driver.communicate(timeout=DEADLINE)
        assert driver.returncode == 0, told + (ship.root.parent / "second.log").read_text()
        assert "base  its worker was lost" in told
        assert (ship.root / "data/base/weights.txt").read_text() == "went on from step 1"
        states = [one["state"] for one in server.ask("flow_runs/filter") if one["deployment_id"]]
        assert "its worker was lost" in [state["message"] for state in states if state["type"] == "CRASHED"]
    finally:
        driver.kill()
        for worker in workers:
            worker.kill()


def test_ctrl_c_in_the_driver_stops_the_stage_on_its_worker(ship: Repository, server: PrefectServer) -> None:
    ship.write("stages/base.py", LONG)
    ship.commit()
    worker = Worker(ship, server, "stopped")
    driver = ship.start("flows", "pipeline", "base", PREFECT_API_URL=server.address)
    try:
        until(lambda: (worker.clone.root / "begun").exists(), "the start of the stage")
        driver.send_signal(signal.SIGINT)
        assert driver.wait(DEADLINE) == 130
        place = str(worker.clone.root)
        until(
            lambda: (
                [one.pid for one in psutil.process_iter(["cwd"]) if one.info["cwd"] == place] == [worker.process.pid]
            ),
            "the end of the stage on the worker",
        )
        assert not (worker.clone.root / "data/base/weights.txt").exists()
    finally:
        driver.kill()
        worker.kill()


def test_a_run_that_is_deleted_is_not_waited_for(ship: Repository, server: PrefectServer) -> None:
    driver = ship.start("flows", "pipeline", "base", "--force", PREFECT_API_URL=server.address)
    try:
        assert driver.stdout
        while "sent to the pool" not in (line := driver.stdout.readline()):
            assert line, "the driver ended before it sent the stage"
        waiting = {"state": {"type": {"any_": ["SCHEDULED"]}}}
        for run in server.ask("flow_runs/filter", flow_runs=waiting):
            answer_of("DELETE", f"{server.address}/flow_runs/{run['id']}")
        told, _ = driver.communicate(timeout=DEADLINE)
        assert driver.returncode == 2
        assert "base: its run was deleted on the Prefect server" in told
    finally:
        driver.kill()


def test_a_pool_without_a_deployment_and_a_driver_without_a_server_are_refused(
    ship: Repository, server: PrefectServer
) -> None:
    refused = ship.run("flows", "pipeline")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1] == (
        "error: host.yaml sends stages to pools, which needs a Prefect server; set PREFECT_API_URL"
    )
    ship.write("host.yaml", "pools: {base: moon}\n")
    refused = ship.run("flows", "pipeline", PREFECT_API_URL=server.address)
    assert refused.returncode == 2
    assert "base is sent to moon, which has no deployment; `prefect deploy --all`" in refused.stderr
