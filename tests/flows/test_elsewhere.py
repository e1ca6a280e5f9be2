"""Stages that are built on other machines: a Prefect server, workers with clones and caches of their own, a remote."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from castaway.errors import CastawayError
from flows.order import Order, carry_out, order_for
from tests.flows.conftest import ROOT, Repository
from tests.flows.running import PrefectServer, busy, until

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
    outs: [data/base]
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    made = PrefectServer(tmp_path_factory.mktemp("prefect"))
    yield made
    made.kill()


@pytest.fixture
def ship(repository: Callable[[str], Repository], empty_store: Path, tmp_path: Path) -> Repository:
    """The driver's clone, with DVC's remote in a folder that all can reach, and everything committed."""
    made = repository(PIPELINE)
    made.write("hull.txt", "oak")
    made.write("build.sh", BUILD)
    made.write("stages/base.py", QUICK)
    made.write("data/.gitkeep", "")
    made.write(".gitignore", "/host.yaml\n/scratch/\n/mlflow.db*\n/mlruns/\n")
    shutil.copy(ROOT / "prefect.yaml", made.root)
    made.write("flows/worker.py", (ROOT / "flows" / "worker.py").read_text("utf-8"))
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


def deploy(ship: Repository, server: PrefectServer) -> None:
    for command in (
        ("work-pool", "create", "--type", "process", "--overwrite", "cpu"),
        ("work-pool", "create", "--type", "process", "--overwrite", "mi300x"),
        ("--no-prompt", "deploy", "--all"),
    ):
        done = ship.run("prefect", *command, PREFECT_API_URL=server.address)
        assert done.returncode == 0, done.stdout + done.stderr


def test_an_order_is_carried_out_in_another_clone_and_comes_back_through_the_remote(
    ship: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BUILT", str(tmp_path / "built"))
    assert ship.run("dvc", "repro", "first").returncode == 0
    assert ship.run("dvc", "push", "data/first").returncode == 0
    order = order_for(ship.root, "base", force=False)
    other = clone_of(ship, "other")
    monkeypatch.chdir(other.root)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert carry_out(other.root, order).state == "Ran"
    assert (tmp_path / "built").read_text() == "here "
    done = ship.run("dvc", "repro", "--single-item", "--pull", "base")
    assert done.returncode == 0, done.stderr
    assert "Running stage" not in done.stdout
    assert (ship.root / "data/base/weights.txt").read_text() == "weights 1"
    assert (ship.root / "data/metrics/base.json").exists()
    # What is not in the commit cannot be sent, and a commit that a worker cannot get cannot be built.
    ship.write("stages/base.py", QUICK + "\n")
    with pytest.raises(
        CastawayError, match=r"^base cannot be sent elsewhere: stages/base.py is not committed; commit and push it"
    ):
        order_for(ship.root, "base", force=False)
    with pytest.raises(CastawayError, match=r"^commit 1234567890 is not in .*; push it there, and build again$"):
        carry_out(other.root, Order("base", "1234567890" * 4, {}))


def test_a_stage_is_built_by_a_worker_and_the_driver_goes_on(ship: Repository, server: PrefectServer) -> None:
    built = ship.root.parent / "built"
    variables = {"PREFECT_API_URL": server.address, "BUILT": str(built)}
    deploy(ship, server)
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
    assert [locks[0][name]["outs"] for name in ("first", "base", "last")] == [
        locks[1][name]["outs"] for name in ("first", "base", "last")
    ]


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
    deploy(ship, server)
    shared = f"checkpoints: {ship.root.parent / 'checkpoints'}\n"
    first = Worker(ship, server, "first", shared)
    driver = subprocess.Popen(
        [sys.executable, "-u", "-m", "flows", "pipeline", "base"],
        cwd=ship.root,
        env=ship.environment(PREFECT_API_URL=server.address),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    until(lambda: (first.clone.root / "begun").exists(), "the start of the stage")
    first.kill()
    second = Worker(ship, server, "second", shared)
    try:
        told, _ = driver.communicate(timeout=600)
        assert driver.returncode == 0, told + (ship.root.parent / "second.log").read_text()
        assert "base  its worker was lost; sent again" in told
        assert (ship.root / "data/base/weights.txt").read_text() == "went on from step 1"
    finally:
        driver.kill()
        second.kill()


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
