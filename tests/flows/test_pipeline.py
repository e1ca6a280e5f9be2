"""The driver on real DVC repositories whose stages are shell commands; no server is needed."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import zc.lockfile
from mlflow import MlflowClient

from castaway.errors import CastawayError
from flows import pipeline, slots
from flows.__main__ import COMMANDS, parser
from flows.__main__ import main as flows
from flows.declared import no_stage
from flows.display import last_text, log_path, new_log
from flows.environment import silence
from flows.ready import unchanged
from flows.report import DRIVER, Outcome, Step
from flows.reproduce import rescue, run_step
from flows.stage import RECEIPT
from flows.walk import walk
from tests.flows.conftest import BASE_ALONE, BODY, WAIT, WAITING, Repository, processes_are_gone
from tests.flows.running import runs_of

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
    outcomes = walk(steps, lambda step, _: run_step(ship.root, step, {}))
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
    with pytest.raises(CastawayError, match=r"dvc\.yaml has no stage keel; it has sail, mast, flag, anchor"):
        pipeline.plan(ship.root, ["keel"])
    with pytest.raises(CastawayError, match=r"dvc\.yaml has no stage masts; did you mean mast\?"):
        pipeline.plan(ship.root, ["sail", "masts"])


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
    ship.change("dvc.yaml", "device: cuda", "device: cpu")
    ship.write("broken", "")
    done = ship.run("flows", "pipeline", "flag")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: mast failed with exit status")
    lines = done.stdout.splitlines()
    assert "mast  started" in lines
    assert "flag  Skipped  needs mast" in lines
    assert "  the full log is scratch/logs/mast.log" in lines
    assert "ERROR: failed to reproduce 'mast'" in (ship.root / "scratch/logs/mast.log").read_text()
    assert any(line.startswith("    ERROR: failed to reproduce 'mast'") for line in lines)
    assert "Running stage 'sail'" in (ship.root / "scratch/logs/sail.log").read_text()
    (ship.root / "broken").unlink()
    done = ship.run("flows", "pipeline", "flag")
    assert done.returncode == 0, done.stderr
    assert "mast  Ran  " in done.stdout
    rows = [line.split("│")[1:3] for line in done.stdout.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row] for row in rows] == [["sail", "Cached"], ["mast", "Ran"], ["flag", "Ran"]]

    client = MlflowClient(f"sqlite:///{ship.root}/mlflow.db")
    first, last = runs_of(client, DRIVER)
    assert (first.info.status, last.info.status) == ("FAILED", "FINISHED")
    table = json.loads(Path(client.download_artifacts(last.info.run_id, "stages.json")).read_text())
    assert dict(zip(table["columns"], table["data"][1], strict=True))["state"] == "Ran"


def test_what_is_unchanged_starts_no_process(ship: Repository) -> None:
    ship.change("dvc.yaml", "device: cuda", "device: cpu")
    logs = ship.root / "scratch/logs"

    def asked() -> set[str]:
        """The stages that DVC was asked to reproduce in a build: each of them has a log."""
        shutil.rmtree(logs, ignore_errors=True)
        done = ship.run("flows", "pipeline")
        assert done.returncode == 0, done.stderr
        return {path.stem for path in logs.glob("*.log")}

    assert asked() == {"sail", "mast", "flag", "anchor"}
    before = runs_of(MlflowClient(f"sqlite:///{ship.root / 'mlflow.db'}"), DRIVER)
    assert asked() == set()
    assert len(runs_of(MlflowClient(f"sqlite:///{ship.root / 'mlflow.db'}"), DRIVER)) == len(before) == 1
    ship.change("params.yaml", "seed: 1", "seed: 2")
    assert asked() == {"mast", "flag"}  # the mast may become another one, so the flag is no longer known
    (ship.root / "data/anchor").unlink()
    assert asked() == {"anchor"}
    assert (ship.root / "data/anchor").read_text() == "iron\n"

    steps = pipeline.plan(ship.root, [])
    assert unchanged(ship.root, steps) == {"sail", "mast", "flag", "anchor"}
    lock = zc.lockfile.LockFile(str(ship.root / ".dvc/tmp/lock"))
    assert unchanged(ship.root, steps) == set()  # another DVC is at work: each stage is asked for in its turn
    lock.close()


def test_a_stage_that_takes_too_long_is_stopped_with_all_its_children(ship: Repository) -> None:
    ship.write("dvc.yaml", WAIT.replace("10", "0.25"))
    ship.write("wait.py", WAITING)
    (step,) = pipeline.plan(ship.root, [])
    outcome = run_step(ship.root, step, {})
    assert outcome.state == "Failed"
    assert outcome.message == "wait was stopped after 0.25 minutes (meta.timeout_minutes in dvc.yaml)"
    assert processes_are_gone(ship)
    # No lock is left behind.
    ship.write("dvc.yaml", PIPELINE)
    assert build(ship, "sail") == {"sail": "Ran"}


COMMAND = "from flows.__main__ import main; sys.exit(main(['pipeline']))"
FOR_TWO_STAGES = f"""\
import os, signal, sys
os.sched_getaffinity = lambda _: set(range(4))
signal.signal(signal.SIGHUP, signal.SIG_DFL)
{COMMAND}"""
"""The driver, on a host with cores for two stages of two threads, and not under `nohup`, whatever runs the tests."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopping_the_driver_stops_the_stages(ship: Repository, number: signal.Signals) -> None:
    another = WAIT.replace("stages:\n", "").replace("wait:", "watch:").replace("data/wait", "data/watch")
    ship.write("dvc.yaml", WAIT + another)
    ship.write("wait.py", WAITING.replace('"w"', '"a"').replace('{child.pid}"', '{child.pid} "'))
    driver = subprocess.Popen([sys.executable, "-c", FOR_TWO_STAGES], cwd=ship.root, env=ship.environment())
    patience = threading.Event()
    both = [log_path(ship.root, name) for name in ("wait", "watch")]
    for _ in range(600):
        if all(last_text(log) == "here" for log in both):
            break
        patience.wait(0.1)
    said = [last_text(log) for log in both]
    driver.send_signal(number)
    assert driver.wait(60) == 130
    assert said == ["here", "here"]
    assert len((ship.root / "processes").read_text().split()) == 4
    assert processes_are_gone(ship)
    client = MlflowClient(f"sqlite:///{ship.root}/mlflow.db")
    (run,) = runs_of(client, DRIVER)
    assert run.info.status == "KILLED"


MEET = """\
import pathlib, sys, time
mine, other = sys.argv[1:]
pathlib.Path(mine).write_text("")
end = time.monotonic() + 60
while not pathlib.Path(other).exists():
    if time.monotonic() > end:
        sys.exit("nobody came")
    time.sleep(0.05)
"""
MEETING = """\
stages:
  port:
    cmd: python meet.py left right && echo port > data/port
    deps: [hull.txt]
    outs: [data/port]
  starboard:
    cmd: python meet.py right left && echo starboard > data/starboard
    deps: [hull.txt]
    outs: [data/starboard]
  ship:
    cmd: cat data/port data/starboard > data/ship
    deps: [data/port, data/starboard]
    outs: [data/ship]
"""


def test_independent_stages_run_side_by_side(ship: Repository) -> None:
    ship.write("dvc.yaml", MEETING)
    ship.write("meet.py", MEET)
    steps = pipeline.plan(ship.root, [])

    def run(step: Step, places: Sequence[int]) -> Outcome:
        return run_step(ship.root, step, {}, log=new_log(ship.root, step.address))

    outcomes = walk(steps, run, 2)
    assert "Failed" not in [outcome.state for outcome in outcomes]
    assert (ship.root / "data/ship").read_text() == "port\nstarboard\n"


def test_a_finished_stage_that_dvc_lost_is_saved(ship: Repository, tmp_path: Path) -> None:
    ship.write("dvc.yaml", BASE_ALONE)
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
    assert not rescue(ship.root, step, {**ran, "stage_key": "of other inputs"})
    assert rescue(ship.root, step, ran)
    outcome = run_step(ship.root, step, {})
    assert outcome.state == "Cached"
    assert outcome.record["run_id"] == ran["run_id"]


def test_a_stage_sees_only_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    assert slots.visible_variables("mi300x", [1]) == {"HIP_VISIBLE_DEVICES": "1"}
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "4, 6")
    assert slots.visible_variables("mi300x", [1]) == {"HIP_VISIBLE_DEVICES": "6"}
    assert slots.visible_variables("mi300x", [0, 1]) == {"HIP_VISIBLE_DEVICES": "4,6"}
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert slots.visible_variables("cuda", [0]) == {"CUDA_VISIBLE_DEVICES": "0"}


def test_a_slot_is_named_after_the_host_and_the_gpu_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    here = socket.gethostname()
    for name in ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    assert slots.slot_name("mi300x", 1) == f"castaway-{here}-mi300x-1"
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1,0")
    assert slots.slot_name("mi300x", 0) == f"castaway-{here}-mi300x-1"
    # HIP counts among the GPUs that ROCr leaves.
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "4,6")
    assert slots.slot_name("mi300x", 0) == f"castaway-{here}-mi300x-6"


def test_the_file_of_the_host_says_where_stages_run_and_which_gpus_are_ours(
    ship: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship.write("dvc.yaml", PIPELINE)
    ship.write("host.yaml", "pins: {sail: cuda}\ngpus: [2]\n")
    assert {step.address: step.device for step in pipeline.plan(ship.root, [])}["sail"] == "cuda"
    variables = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    silence(ship.root)
    assert [os.environ.pop(name) for name in variables if name in os.environ] == ["2"]


def test_a_lost_step_is_an_exit_status(
    ship: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_step(*_: object, **__: object) -> Outcome:
        raise OSError("no space left on device")

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(ship.root / ".prefect"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{ship.root}/mlflow.db")
    monkeypatch.setattr(pipeline, "run_step", run_step)
    assert flows(["pipeline", "sail"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "error: sail failed: OSError: no space left on device"


@pytest.mark.parametrize("line", ["pipeline --force a@x b@x", "--force pipeline a@x b@x", "pipeline a@x b@x --force"])
def test_options_stand_anywhere(line: str) -> None:
    options = parser().parse_intermixed_args(line.split())
    assert (options.command, options.targets, options.force) == ("pipeline", ["a@x", "b@x"], True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sail --force", "--force is an option of pipeline, not of sail"),
        ("promote --write", "--write is an option of closure, not of promote"),
        ("closure --teacher weights", "--teacher is an option of pipeline, not of closure"),
        ("pipeline --cache 4", "--cache is the memory of the server that --teacher names"),
        ("closure sail", "closure is of all stages; leave sail out"),
    ],
)
def test_what_a_command_would_ignore_is_refused(line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert flows(line.split()) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"error: {words}") and told.err.count("\n") == 1 and told.out == ""


def test_without_a_command_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert flows([]) == 0
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\npython -m flows {command} " in shown


def test_a_mistyped_stage_is_told_with_those_there_are() -> None:
    names = ["base@games", "sft@marooned", "sft@strictbot"]
    assert str(no_stage("sft", names)) == "dvc.yaml has no stage sft; it has sft@marooned, sft@strictbot"
    assert str(no_stage("sft@x", names)) == "dvc.yaml has no stage sft@x; it has sft@marooned, sft@strictbot"
    assert str(no_stage("sft@maroned", names)) == "dvc.yaml has no stage sft@maroned; did you mean sft@marooned?"
