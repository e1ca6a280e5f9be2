"""The driver on real DVC repositories whose stages are shell commands; no server is needed."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zc.lockfile
from mlflow import MlflowClient

from castaway.config.errors import CastawayError
from castaway.processes.environment import use_host
from castaway.processes.hardware import visible_variables
from flows import gpus, planned
from flows.__main__ import main as flows
from flows.__main__ import parser
from flows.build import rescue, run_step
from flows.logs import last_text, log_path
from flows.pipeline_run import DRIVER
from flows.plan import plan, unchanged
from flows.scheduler import schedule
from flows.steps import RECEIPT, Outcome
from tests.flows.conftest import BASE_ALONE, BODY, WAIT, WAITING, Repository, processes_are_gone
from tests.flows.running import runs_of, until

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
def ship(repository: Callable[[str], Repository]) -> Repository:
    made = repository(PIPELINE)
    made.write("hull.txt", "oak")
    made.write("receipt.sh", RECEIPT_SCRIPT)
    made.write("data/.gitkeep", "")
    return made


def build(ship: Repository, *targets: str) -> dict[str, str]:
    steps = plan(ship.root, targets)
    outcomes = schedule(steps, lambda step, _: run_step(ship.root, step, {}))
    return {outcome.step.address: outcome.state for outcome in outcomes}


def test_the_plan_is_dvcs_graph(ship: Repository) -> None:
    steps = {step.address: step for step in plan(ship.root, [])}
    assert set(steps) == {"sail", "mast", "flag", "anchor"}
    order = list(steps)
    assert order.index("sail") < order.index("mast") < order.index("flag")
    assert (steps["flag"].upstream, steps["flag"].reads) == (("mast",), ("data/mast",))
    assert (steps["mast"].device, steps["mast"].timeout_seconds) == ("cuda", 60)
    assert (steps["sail"].device, steps["sail"].timeout_seconds) == ("cpu", 240 * 60)
    assert [step.address for step in plan(ship.root, ["mast"])] == ["sail", "mast"]
    with pytest.raises(CastawayError, match=r"dvc\.yaml has no stage keel; expected one of sail, mast, flag, anchor"):
        plan(ship.root, ["keel"])
    with pytest.raises(CastawayError, match=r"dvc\.yaml has no stage masts; did you mean mast\?"):
        plan(ship.root, ["sail", "masts"])


def test_dvc_decides_what_runs(ship: Repository) -> None:
    assert build(ship, "flag") == {"sail": "Ran", "mast": "Ran", "flag": "Ran"}
    ship.change("params.yaml", "seed: 1", "seed: 2")
    # The mast is built again with equal bytes, so the flag need not be.
    assert build(ship, "flag") == {"sail": "Cached", "mast": "Ran", "flag": "Cached"}
    ship.change("params.yaml", "seed: 2", "seed: 1")
    (ship.root / "data/sail").unlink()
    assert build(ship, "mast") == {"sail": "Cached", "mast": "Cached"}
    assert (ship.root / "data/sail").read_text() == "oak"


@pytest.mark.slow
def test_the_command_shows_a_table_leaves_a_run_and_asks_dvc_only_for_what_may_have_changed(
    ship: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    ship.change("dvc.yaml", "device: cuda", "device: cpu")
    logs, client = ship.root / "scratch/logs", MlflowClient(f"sqlite:///{ship.root}/mlflow.db")

    def asked(*targets: str, status: int = 0) -> set[str]:
        """The stages that DVC was asked to reproduce in a build: each of them has a log."""
        shutil.rmtree(logs, ignore_errors=True)
        assert ship.drive("pipeline", *targets) == status
        return {path.stem for path in logs.glob("*.log")}

    ship.write("broken", "")
    assert asked("flag", status=2) == {"sail", "mast"}
    told = capsys.readouterr()
    assert told.err.splitlines()[-1].startswith("error: mast failed with exit status")
    lines = told.out.splitlines()
    assert "mast  started" in lines and "  the full log is scratch/logs/mast.log" in lines
    assert any(line.endswith("/3  flag  Skipped  needs mast") for line in lines)
    assert any(line.startswith("    ERROR: failed to reproduce 'mast'") for line in lines)
    assert "Running stage 'sail'" in (logs / "sail.log").read_text()
    (ship.root / "broken").unlink()
    assert asked("flag") == {"mast", "flag"}
    shown = capsys.readouterr().out
    assert "mast  Ran  " in shown
    table = shown.partition("\nstage ")[2].partition("\n\n")[0].splitlines()[1:]
    assert [line.split()[:2] for line in table] == [["sail", "Cached"], ["mast", "Ran"], ["flag", "Ran"]]
    runs = runs_of(client, DRIVER)
    assert [one.info.status for one in runs] == ["FAILED", "FINISHED"]
    saved = json.loads(Path(client.download_artifacts(runs[-1].info.run_id, "stages.json")).read_text())
    assert dict(zip(saved["columns"], saved["data"][1], strict=True))["state"] == "Ran"

    assert asked() == {"anchor"}
    assert asked() == set()
    assert len(runs_of(client, DRIVER)) == 3, "a build without work leaves none"
    ship.change("params.yaml", "seed: 1", "seed: 2")
    (ship.root / "data/anchor").unlink()
    assert asked() == {"anchor", "mast", "flag"}  # the mast may become another one, so the flag is no longer known
    assert (ship.root / "data/anchor").read_text() == "iron\n"

    steps = plan(ship.root, [])
    assert unchanged(ship.root, steps) == {"sail", "mast", "flag", "anchor"}
    lock = zc.lockfile.LockFile(str(ship.root / ".dvc/tmp/lock"))
    assert unchanged(ship.root, steps) == set()  # another DVC is at work: each stage is asked for in its turn
    lock.close()


@pytest.mark.slow
def test_a_stage_that_takes_too_long_is_stopped_with_all_its_children(ship: Repository) -> None:
    ship.write("dvc.yaml", WAIT.replace("10", "0.25"))
    ship.write("wait.py", WAITING)
    (step,) = plan(ship.root, [])
    outcome = run_step(ship.root, step, {})
    assert outcome.state == "Failed"
    assert outcome.message == "wait was stopped after 0.25 minutes (meta.timeout_minutes in dvc.yaml)"
    assert processes_are_gone(ship)
    # No lock is left behind.
    ship.write("dvc.yaml", PIPELINE)
    assert build(ship, "sail") == {"sail": "Ran"}


FOR_TWO_STAGES = """\
import os, signal, sys
os.sched_getaffinity = lambda _: set(range(4))
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from flows.__main__ import main
sys.exit(main(['pipeline']))"""
"""The driver, on a host with cores for two stages of two threads, and not under `nohup`, whatever runs the tests."""


@pytest.mark.slow
def test_closing_the_terminal_stops_the_stages(ship: Repository) -> None:
    """As Ctrl-C does, see test_stopped.py."""
    another = WAIT.replace("stages:\n", "").replace("wait:", "watch:").replace("data/wait", "data/watch")
    ship.write("dvc.yaml", WAIT + another)
    ship.write("wait.py", WAITING.replace('"w"', '"a"').replace('{child.pid}"', '{child.pid} "'))
    driver = subprocess.Popen([sys.executable, "-c", FOR_TWO_STAGES], cwd=ship.root, env=ship.environment())
    logs = [log_path(ship.root, name) for name in ("wait", "watch")]
    until(lambda: [last_text(log) for log in logs] == ["here", "here"], "the start of both stages")
    driver.send_signal(signal.SIGHUP)
    assert driver.wait(60) == 130
    assert len((ship.root / "processes").read_text().split()) == 4
    assert processes_are_gone(ship)
    (run,) = runs_of(MlflowClient(f"sqlite:///{ship.root}/mlflow.db"), DRIVER)
    assert run.info.status == "KILLED"


@pytest.mark.slow
def test_a_finished_stage_that_dvc_lost_is_saved(ship: Repository, tmp_path: Path) -> None:
    ship.write("dvc.yaml", BASE_ALONE)
    ship.write(
        "stages/base.py", BODY.replace("    for step", "    print('here', flush=True)\n    input()\n    for step")
    )
    receipt = tmp_path / "receipt.json"
    reproduce = ship.start("dvc", "repro", "base", **{RECEIPT: str(receipt)})
    assert reproduce.stdout is not None
    assert any(line == "here\n" for line in reproduce.stdout)
    # Somebody else hashes something large while the stage ends: DVC waits for three seconds and gives up.
    lock = zc.lockfile.LockFile(str(ship.root / ".dvc/tmp/lock"))
    reproduce.communicate("\n")
    lock.close()
    assert reproduce.returncode != 0
    assert not (ship.root / "dvc.lock").exists()

    (step,) = plan(ship.root, [])
    ran = json.loads(receipt.read_text())
    assert "was changed meanwhile" in rescue(ship.root, step, {**ran, "stage_key": "of other inputs"})
    assert not rescue(ship.root, step, ran)
    outcome = run_step(ship.root, step, {})
    assert outcome.state == "Cached"
    assert outcome.record["run_id"] == ran["run_id"]


def test_a_stage_sees_only_its_gpu_whose_slot_is_named_after_the_host_and_the_gpu_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    slot = f"castaway-{socket.gethostname()}-mi300x-"
    assert visible_variables("mi300x", [1]) == {"HIP_VISIBLE_DEVICES": "1"}
    assert gpus.slot_name("mi300x", 1) == f"{slot}1"
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1, 0")
    assert visible_variables("mi300x", [1]) == {"HIP_VISIBLE_DEVICES": "0"}
    assert gpus.slot_name("mi300x", 0) == f"{slot}1"
    assert visible_variables("mi300x", [0, 1]) == {"HIP_VISIBLE_DEVICES": "1,0"}
    # HIP counts among the GPUs that ROCr leaves.
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "4,6")
    assert gpus.slot_name("mi300x", 0) == f"{slot}6"
    assert visible_variables("cuda", [0]) == {"CUDA_VISIBLE_DEVICES": "0"}


def test_the_file_of_the_host_says_where_stages_run_and_which_gpus_are_ours(
    ship: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship.write("dvc.yaml", PIPELINE)
    ship.write("host.yaml", "pins: {sail: cuda}\ngpus: [2]\n")
    assert {step.address: step.device for step in plan(ship.root, [])}["sail"] == "cuda"
    variables = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    use_host(ship.root)
    assert [os.environ.pop(name) for name in variables if name in os.environ] == ["2"]


def test_a_lost_step_is_an_exit_status(
    ship: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_step(*_: object, **__: object) -> Outcome:
        raise OSError("no space left on device")

    monkeypatch.setattr(planned, "run_step", run_step)
    assert ship.drive("pipeline", "sail") == 2
    assert capsys.readouterr().err.splitlines()[-1] == "error: sail failed: OSError: no space left on device"


def test_options_stand_anywhere() -> None:
    for line in ("pipeline --force a@x b@x", "--force pipeline a@x b@x", "pipeline a@x b@x --force"):
        options = parser().parse_intermixed_args(line.split())
        assert (options.command, options.targets, options.force) == ("pipeline", ["a@x", "b@x"], True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sail --force", "--force is an option of pipeline, not of sail"),
        ("promote --teacher weights", "--teacher is an option of pipeline, not of promote"),
        ("pipeline --cache 4", "--cache is the memory of the server that --teacher names"),
    ],
)
def test_what_a_command_would_ignore_is_refused(line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert flows(line.split()) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"error: {words}") and told.err.count("\n") == 1 and told.out == ""
