"""Runs one stage: `python -m flows sft@marooned`, the `cmd` of every stage in dvc.yaml, also by hand.

    1. check params.yaml and the device, before anything is changed
    2. hash the inputs (the stage key) and open an MLflow run
    3. call `stages.NAME.run` with an empty output folder, and a scratch folder to resume from
    4. write metrics, curves and the run record, and the receipt if the driver asked for one

If PREFECT_API_URL is set, the stage is a Prefect flow; otherwise Prefect is not imported.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from castaway.config.bases import Base
from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.rl.advantages import estimator_named
from castaway.tasks.registry import read_params
from castaway.tools import hardware
from flows import declared, environment, records
from flows.plugins import task_code
from flows.restricted import RestrictedContext, restrict, restricted_values
from stages.context import Context

RECEIPT = "CASTAWAY_RECEIPT"
"""Environment variable with the path of the receipt, the file that tells the driver that the stage ran to its end."""


def main(address: str) -> None:
    """Run the stage `NAME@RUN` of the repository around the current directory.

    Raises:
        CastawayError: params.yaml or dvc.yaml is invalid, the device is missing, or the stage reports an error.
    """
    environment.start_afresh()
    root = environment.find_root()
    params = read_params(root / "params.yaml")
    for run in params.tasks:
        estimator_named(params.for_run(run).ppo.advantages)
    os.chdir(root)
    environment.silence(root)
    environment.settle(params, base_of(params, address))
    stage = declared.load(root, address)
    device = hardware.require(stage.device, address)
    # SIGTERM would end the process at once; as an exception, it lets the MLflow run be closed as KILLED.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    as_flow(stage, lambda: execute(stage, params, device))


def as_flow(stage: declared.Declared, body: Callable[[], None]) -> None:
    """Call `body`, as a Prefect flow if PREFECT_API_URL is set."""
    if not os.environ.get("PREFECT_API_URL"):
        body()
        return
    from flows.server import require_server

    require_server()
    from prefect import flow, tags

    with tags(*filter(None, (stage.name, stage.run))):
        flow(name=stage.name, flow_run_name=stage.address, persist_result=False, validate_parameters=False)(body)()


def execute(stage: declared.Declared, params: Params, device: hardware.Device) -> None:
    """Run the stage, record it in MLflow, and write its metrics, curves and run record."""
    from flows.tracking import StageRun, revision

    body = stage_body(stage.root, stage.name)
    began, clock = datetime.now(UTC), time.monotonic()
    scratch = scratch_folder(stage)
    curves = records.Curves(scratch.with_suffix(".jsonl"))
    visible = restrict(params.for_run(stage.run), stage.param_names, stage.address)
    facts = {**device.facts(), "threads": str(params.threads), **code_facts(stage.run, params)}
    run = StageRun(stage, restricted_values(visible), facts)

    def log(step: int, values: Mapping[str, float]) -> None:
        curves.add(step, values)
        run.log(step, values)

    context = RestrictedContext(
        root=stage.root,
        params=visible,
        run=stage.run,
        base=stage.run if stage.name == "base" else params.tasks[stage.run].base,
        stage=stage.name,
        log=log,
        scratch=scratch,
        observe=run.log,
        trace=run.trace,
        readable=frozenset(stage.inputs.data),
    )
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
    run.succeed(metrics, stage.output_hashes())
    record = {
        "run_id": run.run_id,
        "model_id": run.model_id,
        "stage": stage.address,
        "stage_key": stage.inputs.stage_key,
        "revision": revision(stage.root),
        "began": began.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - clock, 1),
        "peak_memory_gib": round(records.peak_memory(), 2),
        "device": str(device),
        **code_facts(stage.run, params),
    }
    records.write_json(records.record_path(stage.root, stage.run, stage.name), record)
    shutil.rmtree(scratch, ignore_errors=True)
    curves.forget()
    if receipt := os.environ.get(RECEIPT):
        records.write_json(Path(receipt), record)


def code_facts(run: str, params: Params) -> dict[str, str]:
    """The task of a run, and the package and version that provide it; empty for a base model."""
    if run not in params.tasks:
        return {}
    code = task_code(params.tasks[run].task)
    return {"task": code.task, "task_package": f"{code.distribution} {code.version}"}


def base_of(params: Params, address: str) -> Base | None:
    """The base model of a stage; None if params.yaml has no such run or base model."""
    name, _, run = address.partition("@")
    if name != "base":
        run = params.tasks[run].base if run in params.tasks else ""
    return params.bases.get(run)


def stage_body(root: Path, name: str) -> Callable[[Context], dict[str, Any]]:
    """The function `run` of `stages/NAME.py`.

    Raises:
        CastawayError: there is no such file.
    """
    # The import alone is no check: an installed copy of the package could provide the file of another clone.
    if not (root / "stages" / f"{name}.py").is_file():
        raise CastawayError(f"stages/{name}.py does not exist, though dvc.yaml names the stage {name}")
    body: Callable[[Context], dict[str, Any]] = importlib.import_module(f"stages.{name}").run
    return body


def scratch_folder(stage: declared.Declared) -> Path:
    """The folder that a killed stage resumes from. Its name is the stage key, so the inputs are always the same."""
    place = stage.root / "scratch" / stage.run / stage.name / stage.inputs.stage_key[:12]
    place.mkdir(parents=True, exist_ok=True)
    return place


def empty(folder: Path) -> None:
    """Create `folder`, or delete its contents. DVC has deleted it already, but not if the stage is run by hand."""
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
