"""The driver: walks DVC's graph and lets DVC decide, stage by stage, whether to run or to restore.

    python -m flows pipeline                      everything that params.yaml asks for
    python -m flows pipeline ppo@marooned         that stage and what it needs
    python -m flows pipeline --teacher WEIGHTS    with vLLM serving the teacher while a stage asks it

With PREFECT_API_URL it is a Prefect flow with one task a stage: independent stages run side by side, a GPU is held by
one stage at a time, and every stage ends as "Ran" or "Cached". Without it, the same walk runs in this process, in
order. Either way DVC is the only cache and MLflow gets one parent run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from flows import declared, environment, hardware, records, report, slots
from flows.process import Group, interruptible
from flows.report import Outcome, Step
from flows.stage import RECEIPT
from flows.teacher import serving_for, what_to_serve


def main(targets: Sequence[str], *, force: bool, teacher: str | None = None) -> int:
    """Build the targets, or everything; `teacher` names the weights to serve for the stages that ask it."""
    root = environment.find_root()
    params = read_params(root / "params.yaml")
    environment.silence(root)
    if teacher:
        what_to_serve(root, teacher, params.teacher)
    steps = plan(root, targets)
    server = bool(os.environ.get("PREFECT_API_URL"))

    def run(step: Step, variables: dict[str, str]) -> Outcome:
        try:
            with serving_for(root, step.address, teacher, params.teacher) if teacher else nullcontext():
                return run_step(root, step, {**variables, **parent.variables}, force=force)
        except CastawayError as error:
            return Outcome(step, "Failed", message=str(error))

    with interruptible(), report.Parent(root, targets) as parent:
        outcomes = walk_with_prefect(steps, run, params) if server else walk(steps, run)
        parent.finish(outcomes)
    report.show(outcomes)
    failed = [outcome for outcome in outcomes if outcome.state == "Failed"]
    if failed:
        raise CastawayError("; ".join(outcome.message for outcome in failed))
    return 0


def plan(root: Path, targets: Sequence[str]) -> list[Step]:
    """The stages that the targets need, in an order in which they can run."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.repo.reproduce import collect_stages, get_active_graph, plan_repro

    try:
        repo = Repo(str(root))
        graph = get_active_graph(repo.index.graph)
        stages = plan_repro(graph, collect_stages(repo, targets) if targets else None)
    except DvcException as error:
        raise CastawayError(f"dvc.yaml cannot be used: {' '.join(str(error).split())}") from None
    steps = []
    for stage in stages:
        facts = declared.Declared(root, stage.addressing, stage)
        upstream = tuple(sorted(needed.addressing for needed in graph.successors(stage)))
        steps.append(Step(facts.address, upstream, facts.device, facts.timeout_seconds, tuple(facts.outs)))
    return steps


def walk(steps: Sequence[Step], run: Callable[[Step, dict[str, str]], Outcome]) -> list[Outcome]:
    """Run the steps one after the other; what needs a failed step is skipped."""
    outcomes: dict[str, Outcome] = {}
    for step in steps:
        lost = [name for name in step.upstream if outcomes[name].state in ("Failed", "Skipped")]
        outcomes[step.address] = Outcome(step, "Skipped", message=f"needs {lost[0]}") if lost else run(step, {})
    return list(outcomes.values())


def walk_with_prefect(
    steps: Sequence[Step], run: Callable[[Step, dict[str, str]], Outcome], params: Params
) -> list[Outcome]:
    """The same walk as a Prefect flow, with a task for each step and a slot for each GPU."""
    from flows.server import require_server

    require_server()
    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE
    from prefect.client.schemas.objects import State
    from prefect.states import Completed, Failed
    from prefect.task_runners import ThreadPoolTaskRunner

    outcomes: dict[str, Outcome] = {}
    devices = max(1, len(hardware.visible_devices())) if any(step.device != "cpu" for step in steps) else 0

    def stage(address: str, index: int) -> State[Any]:
        step = by_address[address]
        try:
            with slots.occupy(step.device, index, devices) as variables:
                outcome = run(step, variables)
        except CastawayError as error:
            outcome = Outcome(step, "Failed", message=str(error))
        outcomes[address] = outcome
        kind = Failed if outcome.state == "Failed" else Completed
        return kind(name=outcome.state, message=outcome.message or outcome.state)

    def pipeline() -> State[Any]:
        futures: dict[str, Any] = {}
        for step in steps:
            needed = [futures[name] for name in step.upstream]
            index = gpu_index(step.address, list(params.tasks), max(1, devices))
            futures[step.address] = as_task.submit(step.address, index, wait_for=needed)
        for future in futures.values():
            future.wait()
        for step in steps:
            outcomes.setdefault(step.address, Outcome(step, "Skipped", message="something that it needs failed"))
        report.show_in_prefect([outcomes[step.address] for step in steps])
        failed = [outcome.message for outcome in outcomes.values() if outcome.state == "Failed"]
        return Failed(message="; ".join(failed)) if failed else Completed(message=f"{len(steps)} stages are built")

    by_address = {step.address: step for step in steps}
    as_task: Any = task(name="stage", task_run_name="{address}", cache_policy=NO_CACHE, persist_result=False)(stage)
    runner: Any = ThreadPoolTaskRunner(max_workers=side_by_side(steps, params))
    flow(name="pipeline", task_runner=runner, persist_result=False)(pipeline)(return_state=True)
    return [outcomes[step.address] for step in steps]


def side_by_side(steps: Sequence[Step], params: Params) -> int:
    """How many stages may run at once: the slots order those on GPUs, the cores bound those on the CPU."""
    if any(step.device != "cpu" for step in steps):
        return len(steps)
    return max(1, (os.cpu_count() or 1) // params.threads)


def gpu_index(address: str, tasks: Sequence[str], devices: int) -> int:
    """The GPU of a stage: the stages of one task follow one another, so each task keeps to one GPU."""
    task = address.partition("@")[2]
    return list(tasks).index(task) % devices if task in tasks else 0


def run_step(root: Path, step: Step, variables: dict[str, str], *, force: bool = False) -> Outcome:
    """Let DVC reproduce one stage; the stage itself leaves a receipt if it was run to its end."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="castaway-") as folder:
        receipt = Path(folder) / "receipt.json"
        arguments = ["repro", "--single-item", *(["--force"] if force else []), step.address]
        try:
            status = dvc(root, arguments, {**variables, RECEIPT: str(receipt)}).wait(step.timeout_seconds)
        except TimeoutError:
            minutes = f"{step.timeout_seconds / 60:g} minutes (meta.timeout_minutes in dvc.yaml)"
            return Outcome(step, "Failed", time.monotonic() - began, f"{step.address} was stopped after {minutes}")
        ran = receipt.exists()
        if status != 0 and not (ran and rescue(root, step, records.read_json(receipt))):
            message = f"{step.address} failed with exit status {status}, the lines above say why"
            return Outcome(step, "Failed", time.monotonic() - began, message)
    made = records.record_of(root, step.outs[0]) if step.outs else {}
    return Outcome(step, "Ran" if ran else "Cached", time.monotonic() - began, record=made)


def rescue(root: Path, step: Step, ran: dict[str, Any]) -> bool:
    """Save a stage that was run to its end but not recorded, because DVC could not take its lock back in time.

    Without this, the next `dvc repro` would delete what the stage made and run it again. It is only done if the inputs
    are still those that the stage read.
    """
    if declared.load(root, step.address).inputs.stage_key != ran.get("stage_key"):
        return False
    return dvc(root, ["commit", "--force", step.address], {}).wait(step.timeout_seconds) == 0


def dvc(root: Path, arguments: Sequence[str], variables: dict[str, str]) -> Group:
    """Start DVC, with the `python` of its stages being this one.

    It waits for its lock however long it takes: DVC's own patience is 3 seconds, less than another stage needs to hash.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", *arguments]
    return Group(command, root, {**variables, "PATH": path})
