"""Runs one stage: `python -m flows sft@marooned`, the `cmd` of every stage in dvc.yaml, also by hand.

    1. check params.yaml, the device and the number of task ids, before anything is changed
    2. hash the inputs (the stage key) and open an MLflow run
    3. call `stages.NAME.run` with an empty output folder, and a scratch folder to resume from
    4. write metrics, curves and the run record, and the receipt if the driver asked for one

Where `host.yaml` asks for several processes, 2 to 4 are done in those that torchrun starts, by the first of them; the
others only call `run`.

If the user has a Prefect server, the stage is also shown there; otherwise Prefect is not imported.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castaway.config.bases import Base
from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from castaway.tasks.shortage import require_ids
from castaway.tools import hardware, prefect_address
from castaway.tools.host_file import load_host
from flows import declared, environment, ledger, records, torchrun
from flows.lifeline import end_with_starters
from flows.plugins import task_code
from flows.put_back import put_back
from flows.revision import revision
from flows.scratch import scratch_folder, scratch_for

if TYPE_CHECKING:
    from flows.restricted import RestrictedContext
    from stages.context import Context, Log, Trace

# torch, MLflow and Prefect are imported later: a refusal should not take the seconds that they need.

RECEIPT = "CASTAWAY_RECEIPT"
"""Environment variable with the path of the receipt, the file that tells the driver that the stage ran to its end."""

DRAWING = ("base", "dataset", "ppo")
"""The stages that draw training ids; PPO too, since its validation may have been changed after the dataset was made. An
evaluation that lacks ids says so itself, before it plays."""


def main(address: str) -> None:
    """Run the stage `NAME@RUN` of the repository around the current directory.

    Raises:
        CastawayError: params.yaml or dvc.yaml is invalid, the device is missing, or the stage reports an error.
    """
    root = environment.find_root()
    os.chdir(root)
    end_with_starters()
    try:
        stage, params, device = checked(root, address)
    except CastawayError:
        put_back(root, address)
        raise
    # SIGTERM would end the process at once; as an exception, it lets the MLflow run be closed as KILLED.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    together = stage.torchrun
    if together.nproc_per_node * together.nnodes > 1 and not torchrun.is_member():
        torchrun.start(address, stage.device, together)
    elif torchrun.rank() > 0:
        train_along(stage, params)
    else:
        with shown_in_prefect(stage), scratch_for(stage) as scratch:
            execute(stage, params, device, scratch)


def checked(root: Path, address: str) -> tuple[declared.Declared, Params, hardware.Device]:
    """The stage, the parameters and the device, before anything is changed.

    Raises:
        CastawayError: params.yaml or dvc.yaml is invalid, the device is missing, or a task has too few ids.
    """
    params = read_params(root / "params.yaml")
    environment.silence(root)
    # Before DVC is loaded, and numpy with it, which reads some of these variables.
    together = load_host(environment.main_root(root)).processes(address)
    environment.settle(params, base_of(params, address), together.nproc_per_node)
    stage = declared.load(root, address)
    device = hardware.require(stage.device, address)
    stage_file(root, stage.name)
    if stage.name in DRAWING:
        # All that the run will draw, though the stage depends on a part: later stages must not be the first to notice.
        for run in runs_of(stage, params):
            require_ids(params, run)
    return stage, params, device


def runs_of(stage: declared.Declared, params: Params) -> list[str]:
    """The runs that a stage belongs to: one, or all that start from its base model."""
    return [name for name, run in params.tasks.items() if stage.run == (run.base if stage.name == "base" else name)]


def shown_in_prefect(stage: declared.Declared) -> Any:
    """Context in which the stage is shown as a flow run, if the user has a Prefect server."""
    if not prefect_address.address():
        return nullcontext()
    from flows.prefect_runs import FlowRun

    return FlowRun(stage.name, stage.address, [tag for tag in (stage.name, stage.run) if tag])


def train_along(stage: declared.Declared, params: Params) -> None:
    """Run the stage in a process other than the first of those that train together: it reports and writes nothing."""
    from stages.context import log_nothing, trace_nothing

    folder = scratch_folder(environment.main_root(stage.root), stage)
    stage_body(stage.root, stage.name)(
        context_of(stage, params, folder, log=log_nothing, observe=log_nothing, trace=trace_nothing)
    )


def context_of(
    stage: declared.Declared, params: Params, scratch: Path, *, log: Log, observe: Log, trace: Trace
) -> RestrictedContext:
    """The context of one execution of the stage, which sees what dvc.yaml lists and nothing else."""
    from flows.restricted import RestrictedContext, restrict

    return RestrictedContext(
        root=stage.root,
        params=restrict(params.for_run(stage.run), stage.param_names, stage.address),
        run=stage.run,
        base=stage.run if stage.name == "base" else params.tasks[stage.run].base,
        stage=stage.name,
        log=log,
        scratch=scratch,
        observe=observe,
        trace=trace,
        device=stage.device,
        sharded=stage.torchrun.shard,
        processes=stage.processes,
        readable=frozenset(stage.inputs.data),
        original=environment.main_root(stage.root),
    )


def execute(stage: declared.Declared, params: Params, device: hardware.Device, scratch: Path) -> None:
    """Run the stage, record it in MLflow, and write its metrics, curves and run record."""
    from flows.restricted import restrict, restricted_values
    from flows.tracking import StageRun

    body = stage_body(stage.root, stage.name)
    began, clock = datetime.now(UTC), time.monotonic()
    curves = records.Curves(scratch.with_suffix(".jsonl"))
    visible = restrict(params.for_run(stage.run), stage.param_names, stage.address)
    together = {"threads": str(params.threads), "processes": str(torchrun.count())}
    facts = {**device.facts(), **together, **code_facts(stage.run, params)}
    code = revision(stage.root)
    run = StageRun(stage, restricted_values(visible), facts, code)

    def log(step: int, values: Mapping[str, float]) -> None:
        curves.add(step, values)
        run.log(step, values)

    context = context_of(stage, params, scratch, log=log, observe=run.log, trace=run.trace)
    empty(context.output)
    try:
        metrics = body(context)
        records.write_json(records.metrics_path(stage.root, stage.run, stage.name), metrics)
        for path in stage.plots:
            curves.write(stage.root / path)
    except BaseException as error:
        # KeyboardInterrupt and SystemExit are no subclasses of Exception: the stage was stopped from outside.
        run.fail("FAILED" if isinstance(error, Exception) else "KILLED")
        raise
    made = stage.output_hashes()
    run.succeed(metrics, made)
    record = {
        "run_id": run.run_id,
        "model_id": run.model_id,
        "stage": stage.address,
        "stage_key": stage.inputs.stage_key,
        "outputs": made,
        "revision": code,
        "began": began.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - clock, 1),
        "logging_seconds": round(run.seconds, 2),
        "peak_memory_gib": round(records.peak_memory(stage.processes - 1), 2),
        "device": str(device),
        **code_facts(stage.run, params),
    }
    records.write_json(records.record_path(stage.root, stage.run, stage.name), record)
    if stage.name == "evaluate":
        ledger.record(stage, params.for_run(stage.run), began, code)
    if receipt := os.environ.get(RECEIPT):
        records.write_json(Path(receipt), record)
    # At the very end: whatever fails before, the stage can go on from there.
    shutil.rmtree(scratch, ignore_errors=True)
    curves.forget()


def base_of(params: Params, address: str) -> Base | None:
    """The base model of a stage; None if params.yaml has no such run or base model."""
    name, _, run = address.partition("@")
    if name != "base":
        run = params.tasks[run].base if run in params.tasks else ""
    return params.bases.get(run)


def code_facts(run: str, params: Params) -> dict[str, str]:
    """The task of a run, and the package and version that provide it; empty for a base model."""
    if run not in params.tasks:
        return {}
    code = task_code(params.tasks[run].task)
    return {"task": code.task, "task_package": f"{code.distribution} {code.version}"}


def stage_body(root: Path, name: str) -> Callable[[Context], dict[str, Any]]:
    """The function `run` of `stages/NAME.py`.

    Raises:
        CastawayError: there is no such file.
    """
    stage_file(root, name)
    body: Callable[[Context], dict[str, Any]] = importlib.import_module(f"stages.{name}").run
    return body


def stage_file(root: Path, name: str) -> Path:
    """The file of a stage.

    Raises:
        CastawayError: there is no such file.
    """
    # The import alone is no check: an installed copy of the package could provide the file of another clone.
    path = root / "stages" / f"{name}.py"
    if not path.is_file():
        raise CastawayError(f"stages/{name}.py does not exist, though dvc.yaml names the stage {name}")
    return path


def empty(folder: Path) -> None:
    """Create `folder`, or delete its contents. DVC has deleted it already, but not if the stage is run by hand."""
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
