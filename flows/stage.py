"""Runs one stage: `python -m flows sft@marooned`, the `cmd` of every stage in dvc.yaml, also by hand.

    1. check params.yaml, the device and the number of task ids, before anything is changed
    2. hash the inputs (the stage key) and open an MLflow run
    3. call `stages.NAME.run` with an empty output folder, and a scratch folder to resume from
    4. write figures, curves and the run record, and the receipt if the driver asked for one

Where `host.yaml` asks for several processes, 2 to 4 are done in those that torchrun starts, by the first of them; the
others only call `run`.

Prefect is imported only where the user has a server, which then shows the stage.
"""

import importlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from castaway.config.bases import Base
from castaway.config.errors import CastawayError
from castaway.config.params import Params, restrict, restricted_values
from castaway.metrics import ledger
from castaway.metrics.built import locked_stages
from castaway.processes import environment, groups, hardware
from castaway.processes.environment import revision
from castaway.processes.servers import configured
from castaway.tasks.environment import held_out_block
from castaway.tasks.registry import read_params, task_code
from castaway.tools.check_task import require_ids
from castaway.tracking import dvc_stage, records
from flows import prefect_server
from flows.locks import scratch_folder, scratch_for
from flows.steps import RECEIPT
from stages.context import Context

# torch, MLflow and Prefect are imported later: a refusal should not take the seconds that they need.

DRAWING = ("base", "dataset", "ppo")
"""The stages that draw training ids; PPO too, since its validation may have been changed after the dataset was made. An
evaluation that lacks ids says so itself, before it plays."""


def main(address: str) -> None:
    """Run the stage `NAME@RUN` of the repository around the current directory."""
    root = environment.find_root()
    os.chdir(root)
    groups.end_with_starters()
    try:
        stage, params, device = checked(root, address)
    except CastawayError:
        put_back(root, address)
        raise
    # SIGTERM would end the process at once; as an exception, it lets the MLflow run be closed as KILLED.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    together = stage.torchrun
    if together.nproc_per_node * together.nnodes > 1 and not groups.is_member():
        groups.start_torchrun(address, stage.device, together)
    elif groups.rank() > 0:
        train_along(stage, params)
    else:
        with scratch_for(stage) as scratch:
            shown_in_prefect(address, lambda: execute(stage, params, device, scratch))


def put_back(root: Path, address: str) -> None:
    """Restore the outputs that DVC deleted for this run from its cache; what it lacks is named in a warning."""
    if os.environ.get(groups.STAGE) != address or not (root / "dvc.lock").exists():
        return
    lost: list[str] = []
    try:
        known = locked_stages(root).get(address)
        if known is None:
            return
        stage = dvc_stage.load(root, address).stage
        # As DVC's run-cache does: metrics and plots are in the cache too, though dvc.yaml says `cache: false`.
        for out in stage.repo.stage_cache._create_stage(known.entry, wdir=stage.wdir).outs:
            if not out.exists and out.changed_cache():
                lost.append(out.def_path)
            elif not out.exists:
                out.checkout()
    except Exception as error:  # DVC's own or the file system's
        lost.append(f"outputs of {address} ({' '.join(str(error).split())[:200]})")
    if lost:
        print(f"warning: DVC has deleted {', '.join(lost)}, and its cache has no copy", file=sys.stderr)


def shown_in_prefect(address: str, run: Callable[[], None]) -> None:
    if configured() and groups.DRIVER not in os.environ:  # a driver shows its stages itself
        with prefect_server.for_build(environment.find_root()) as there:
            if there:
                from flows.pipeline import run_stage_in_flow

                run_stage_in_flow(address, run)
                return
    run()


def checked(root: Path, address: str) -> tuple[dvc_stage.DvcStage, Params, hardware.Device]:
    """The stage, the parameters and the device, before anything is changed; CastawayError if one does not do."""
    params = read_params(root / "params.yaml")
    environment.use_host(root)
    # Before DVC is loaded, and numpy with it, which reads some of these variables.
    environment.settle(params, base_of(params, address))
    revision(root)  # git may refuse the repository
    stage = dvc_stage.load(root, address)
    device = hardware.require(stage.device, address)
    # The import alone is no check: an installed copy of the package could provide the file of another clone.
    if not (root / "stages" / f"{stage.name}.py").is_file():
        raise CastawayError(f"stages/{stage.name}.py does not exist, though dvc.yaml names the stage {stage.name}")
    if stage.name in DRAWING:
        # All that the run will draw, though the stage depends on a part: later stages must not be the first to notice.
        for name, run in params.tasks.items():
            if stage.run == (run.base if stage.name == "base" else name):
                require_ids(params, name)
    return stage, params, device


def train_along(stage: dvc_stage.DvcStage, params: Params) -> None:
    """Run the stage in a process other than the first of those that train together: it reports and writes nothing."""
    scratch = scratch_folder(environment.main_root(stage.root), stage)
    importlib.import_module(f"stages.{stage.name}").run(context_of(stage, params, scratch))


def context_of(stage: dvc_stage.DvcStage, params: Params, scratch: Path) -> Context:
    """The context of one execution of the stage, which sees what dvc.yaml lists and nothing else."""
    return Context(
        root=stage.root,
        params=restrict(params.for_run(stage.run), stage.param_names, stage.address),
        run=stage.run,
        base=stage.run if stage.name == "base" else params.tasks[stage.run].base,
        stage=stage.name,
        scratch=scratch,
        device=stage.device,
        sharded=stage.torchrun.shard,
        processes=stage.processes,
        vllm_size=(stage.vllm.tensor_parallel_size, stage.vllm.data_parallel_size),
        original=environment.main_root(stage.root),
        readable=frozenset(stage.inputs.data),
    )


def execute(stage: dvc_stage.DvcStage, params: Params, device: hardware.Device, scratch: Path) -> None:
    """Run the stage, record it in MLflow, and write its figures, curves and run record."""
    from castaway.tracking.stage_run import StageRun

    with environment.importing():
        module = importlib.import_module(f"stages.{stage.name}")
    began, clock = datetime.now(UTC), time.monotonic()
    curves = records.Curves(scratch.with_suffix(".jsonl"))
    context = context_of(stage, params, scratch)
    together = {"threads": str(params.threads), "processes": str(groups.world_size())}
    facts = {**device.facts(), **together, **code_facts(stage.run, params)}
    code = revision(stage.root)
    with environment.importing():  # MLflow
        run = StageRun(stage, restricted_values(context.params), facts, code)

    def log(step: int, values: Mapping[str, float]) -> None:
        curves.add(step, values)
        run.log(step, values)

    context = replace(context, log=log, observe=run.log, trace=run.trace, tag=run.tag)
    empty(context.output)
    try:
        figures = module.run(context)
        records.write_json(stage.file("figures"), figures)
        records.write_json(stage.file("metrics"), records.headline(getattr(module, "HEADLINE", {}), figures))
        for path in stage.plots:
            curves.write(stage.root / path)
    except BaseException as error:
        # KeyboardInterrupt and SystemExit are no subclasses of Exception: the stage was stopped from outside.
        run.close("FAILED" if isinstance(error, Exception) else "KILLED")
        raise
    made = stage.output_hashes()
    run.succeed(figures, made)
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
    records.write_json(stage.file("runs"), record)
    records.publish(stage.root, stage.run, stage.name)
    if stage.name == "evaluate":
        record_asking(stage, params.for_run(stage.run), record)
    if receipt := os.environ.get(RECEIPT):
        records.write_json(Path(receipt), record)
    # At the very end: whatever fails before, the stage can go on from there.
    shutil.rmtree(scratch, ignore_errors=True)
    curves.forget()


def record_asking(stage: dvc_stage.DvcStage, params: Params, record: Mapping[str, Any]) -> None:
    """Add an evaluation to the ledger of the original repository, also from a copy that an experiment works in."""
    row = ledger.Asking(
        block=held_out_block(params.evaluate.block, params.seed),
        seed=params.seed,
        asked=record["began"],
        revision=record["revision"],
        stage_key=record["stage_key"],
        weights=stage.inputs.data,
    )
    ledger.add(environment.main_root(stage.root) / "data" / stage.run / "metrics" / ledger.FILE, [row])


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


def empty(folder: Path) -> None:
    """Create `folder`, or delete its contents. DVC has deleted it already, but not if the stage is run by hand."""
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
