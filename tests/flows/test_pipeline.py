"""The driver on real DVC repositories whose stages are shell commands; no server is needed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zc.lockfile
from mlflow import MlflowClient

from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from flows import pipeline, slots
from flows.report import Outcome, Step
from flows.stage import RECEIPT
from tests.flows.conftest import BODY, ROOT, WAIT, WAITING, Repository, processes_are_gone

PIPELINE = """\
stages:
  sail:
    cmd: cat hull.txt > data/sail && sh receipt.sh
    deps: [hull.txt]
    outs: [data/sail]
  mast:
    cmd: test -e broken && exit 3; cat data/sail > data/mast && sh receipt.sh
    deps: [data/sail]
    params: [seed]
    outs: [data/mast]
    meta: {device: cuda, timeout_minutes: 1}
  flag:
    cmd: cat data/mast > data/flag && sh receipt.sh
    deps: [data/mast]
    outs: [data/flag]
  anchor:
    cmd: echo iron > data/anchor && sh receipt.sh
    deps: [hull.txt]
    outs: [data/anchor]
"""
RECEIPT_SCRIPT = f'test -z "${RECEIPT}" || echo "{{}}" > "${RECEIPT}"\n'


@pytest.fixture
def ship(repository: Callable[[str], Repository], empty_store: Path) -> Repository:
    made = repository(PIPELINE)
    made.write("hull.txt", "oak")
    made.write("receipt.sh", RECEIPT_SCRIPT)
    made.write("data/.gitkeep", "")
    shutil.copy(empty_store, made.root)
    return made


def build(ship: Repository, *targets: str) -> dict[str, str]:
    steps = pipeline.plan(ship.root, targets)
    outcomes = pipeline.walk(steps, lambda step, variables: pipeline.run_step(ship.root, step, variables))
    return {outcome.step.address: outcome.state for outcome in outcomes}


def test_the_plan_is_dvcs_graph(ship: Repository) -> None:
    steps = {step.address: step for step in pipeline.plan(ship.root, [])}
    assert set(steps) == {"sail", "mast", "flag", "anchor"}
    order = list(steps)
    assert order.index("sail") < order.index("mast") < order.index("flag")
    assert steps["flag"].upstream == ("mast",)
    assert (steps["mast"].device, steps["mast"].timeout_seconds) == ("cuda", 60)
    assert (steps["sail"].device, steps["sail"].timeout_seconds) == ("cpu", 240 * 60)
    assert [step.address for step in pipeline.plan(ship.root, ["mast"])] == ["sail", "mast"]
    with pytest.raises(CastawayError, match=r"dvc\.yaml cannot be used: .*keel"):
        pipeline.plan(ship.root, ["keel"])


def test_dvc_decides_what_runs(ship: Repository) -> None:
    assert build(ship, "flag") == {"sail": "Ran", "mast": "Ran", "flag": "Ran"}
    assert build(ship, "flag") == {"sail": "Cached", "mast": "Cached", "flag": "Cached"}
    ship.change("params.yaml", "seed: 1", "seed: 2")
    # The mast is built again with equal bytes, so the flag need not be.
    assert build(ship, "flag") == {"sail": "Cached", "mast": "Ran", "flag": "Cached"}
    ship.write("hull.txt", "pine")
    assert build(ship, "flag") == {"sail": "Ran", "mast": "Ran", "flag": "Ran"}
    ship.write("hull.txt", "oak")
    assert build(ship, "flag") == {"sail": "Cached", "mast": "Cached", "flag": "Cached"}
    assert (ship.root / "data/flag").read_text() == "oak"


def test_what_needs_a_failed_stage_is_skipped(ship: Repository) -> None:
    ship.write("broken", "")
    assert build(ship) == {"sail": "Ran", "mast": "Failed", "flag": "Skipped", "anchor": "Ran"}
    (ship.root / "broken").unlink()
    assert build(ship) == {"sail": "Cached", "mast": "Ran", "flag": "Ran", "anchor": "Cached"}


def test_the_command_shows_a_table_and_leaves_a_parent_run(ship: Repository) -> None:
    ship.write("broken", "")
    done = ship.run("flows", "pipeline", "flag")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: mast failed with exit status")
    (ship.root / "broken").unlink()
    done = ship.run("flows", "pipeline", "flag")
    assert done.returncode == 0, done.stderr
    rows = [line.split("│")[1:3] for line in done.stdout.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row] for row in rows] == [["sail", "Cached"], ["mast", "Ran"], ["flag", "Ran"]]

    client = MlflowClient(f"sqlite:///{ship.root}/mlflow.db")
    experiment = client.get_experiment_by_name("pipeline")
    last, first = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time DESC"])
    assert (first.info.status, last.info.status) == ("FAILED", "FINISHED")
    table = json.loads(Path(client.download_artifacts(last.info.run_id, "stages.json")).read_text())
    assert dict(zip(table["columns"], table["data"][1], strict=True))["state"] == "Ran"


def test_a_stage_that_takes_too_long_is_stopped_with_all_its_children(ship: Repository) -> None:
    ship.write("dvc.yaml", WAIT.replace("10", "0.25"))
    ship.write("wait.py", WAITING)
    (step,) = pipeline.plan(ship.root, [])
    outcome = pipeline.run_step(ship.root, step, {})
    assert outcome.state == "Failed"
    assert outcome.message == "wait was stopped after 0.25 minutes (meta.timeout_minutes in dvc.yaml)"
    assert processes_are_gone(ship)
    # No lock is left behind.
    ship.write("dvc.yaml", PIPELINE)
    assert build(ship, "sail") == {"sail": "Ran"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_the_driver_stops_the_stage(ship: Repository, number: signal.Signals) -> None:
    ship.write("dvc.yaml", WAIT)
    ship.write("wait.py", WAITING)
    command = [sys.executable, "-m", "flows", "pipeline"]
    driver = subprocess.Popen(command, cwd=ship.root, env=ship.environment(), stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    assert any(line == "here\n" for line in driver.stdout)
    driver.send_signal(number)
    assert driver.wait() == 130
    assert processes_are_gone(ship)
    client = MlflowClient(f"sqlite:///{ship.root}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("pipeline").experiment_id])
    assert run.info.status == "KILLED"


LOST = """\
stages:
  base:
    cmd: python -m flows base
    params: [seed]
    outs: [data/base]
    metrics:
      - data/metrics/base.json: {cache: false}
      - data/runs/base.json: {cache: false}
"""


def test_a_finished_stage_that_dvc_lost_is_saved(ship: Repository, tmp_path: Path) -> None:
    ship.write("dvc.yaml", LOST)
    ship.write(
        "stages/base.py", BODY.replace("    for step", "    print('here', flush=True)\n    input()\n    for step")
    )
    receipt = tmp_path / "receipt.json"
    reproduce = subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro", "base"],
        cwd=ship.root,
        env=ship.environment(**{RECEIPT: str(receipt)}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reproduce.stdout is not None
    assert any(line == "here\n" for line in reproduce.stdout)
    # Somebody else hashes something large while the stage ends: DVC waits for three seconds and gives up.
    lock = zc.lockfile.LockFile(str(ship.root / ".dvc/tmp/lock"))
    reproduce.communicate("\n")
    lock.close()
    assert reproduce.returncode != 0
    assert not (ship.root / "dvc.lock").exists()

    (step,) = pipeline.plan(ship.root, [])
    ran = json.loads(receipt.read_text())
    assert not pipeline.rescue(ship.root, step, {**ran, "stage_key": "of other inputs"})
    assert pipeline.rescue(ship.root, step, ran)
    outcome = pipeline.run_step(ship.root, step, {})
    assert outcome.state == "Cached"
    assert outcome.record["run_id"] == ran["run_id"]


def test_each_task_keeps_to_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = ["marooned", "openspiel", "strictbot"]
    assert [pipeline.gpu_index(f"sft@{task}", tasks, 2) for task in tasks] == [0, 1, 0]
    assert pipeline.gpu_index("base", tasks, 2) == 0
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    assert slots.visible_variables("mi300x", 1) == {"HIP_VISIBLE_DEVICES": "1"}
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "4, 6")
    assert slots.visible_variables("mi300x", 1) == {"HIP_VISIBLE_DEVICES": "6"}
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert slots.visible_variables("cuda", 0) == {"CUDA_VISIBLE_DEVICES": "0"}


def test_the_cores_bound_what_runs_side_by_side() -> None:
    params = read_params(ROOT / "params.yaml")
    cpu, gpu = (Step(device, (), device, 1.0, ()) for device in ("cpu", "cuda"))
    assert pipeline.side_by_side([cpu] * 5, params) == max(1, (os.cpu_count() or 1) // params.threads)
    assert pipeline.side_by_side([cpu, gpu, gpu], params) == 3


def test_an_outcome_is_a_row() -> None:
    step = Step("sft@marooned", (), "cpu", 1.0, ("data/marooned/sft",))
    outcome = Outcome(step, "Ran", 1.26, record={"run_id": None, "began": "now"})
    assert outcome.row() == {"stage": "sft@marooned", "state": "Ran", "seconds": "1.3", "run": "-", "made": "now"}
