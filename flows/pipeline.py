"""The driver of the pipeline: goes through DVC's graph, and has DVC run or restore one stage after another.

    python -m flows pipeline                      every stage of every run in params.yaml
    python -m flows pipeline ppo@marooned         one stage and the stages that it needs
    python -m flows pipeline --teacher WEIGHTS    serve the teacher with vLLM for the stages that use it

Independent stages run in parallel, as many as the cores allow, and each GPU is used by one stage at a time. The stage
with the longest path to the end starts first; each stage writes its output to scratch/logs. If PREFECT_API_URL is set,
the pipeline is a Prefect flow with one task per stage. In both cases DVC is the only cache, every stage ends as "Ran"
or "Cached", and MLflow gets one parent run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from pathlib import Path
from statistics import fmean
from typing import Any

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from castaway.tools import hardware
from flows import declared, environment, records, report, slots
from flows.display import Display, new_log
from flows.process import Group, interruptible, stopped_together
from flows.report import Outcome, Step
from flows.stage import RECEIPT
from flows.teacher import serving_for, what_to_serve


def main(targets: Sequence[str], *, force: bool, teacher: str | None = None) -> int:
    """Build the targets.

    Args:
        targets: addresses of stages; none stands for all stages.
        force: run every stage, even if nothing changed.
        teacher: weights to serve for the stages that use the teacher; None to serve none.

    Returns:
        The exit status, 0.

    Raises:
        CastawayError: a stage failed, or the targets or files are invalid.
    """
    root = environment.find_root()
    params = read_params(root / "params.yaml")
    environment.silence(root)
    if teacher:
        # Only to fail at once, and not hours later at the first stage that uses the teacher.
        what_to_serve(root, teacher, params.teacher)
    steps = plan(root, targets)
    server = bool(os.environ.get("PREFECT_API_URL"))

    def run(step: Step, variables: dict[str, str]) -> Outcome:
        log = None if server else new_log(root, step.address)
        with serving_for(root, step.address, teacher, params.teacher) if teacher else nullcontext():
            return run_step(root, step, {**variables, **parent.variables}, force=force, log=log)

    with interruptible(), report.Parent(root, targets) as parent:
        if server:
            outcomes = walk_with_prefect(steps, run, params)
        else:
            with Display(root) as display:
                outcomes = walk(
                    steps, run, cores(params), gpus(steps), seconds=recorded_seconds(root, steps), display=display
                )
        parent.finish(outcomes)
    report.show(outcomes)
    failed = [outcome for outcome in outcomes if outcome.state == "Failed"]
    if failed:
        raise CastawayError("; ".join(outcome.message for outcome in failed))
    return 0


def plan(root: Path, targets: Sequence[str]) -> list[Step]:
    """The targets and all stages that they depend on, dependencies first.

    Raises:
        CastawayError: dvc.yaml is invalid, or has no such target.
    """
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
        one = declared.Declared(root, stage.addressing, stage)
        # The edges of DVC's graph lead from a stage to those that it depends on.
        upstream = tuple(sorted(needed.addressing for needed in graph.successors(stage)))
        steps.append(Step(one.address, upstream, one.device, one.timeout_seconds, tuple(one.outs)))
    return steps


def walk(
    steps: Sequence[Step],
    run: Callable[[Step, dict[str, str]], Outcome],
    cores: int = 1,
    gpus: int = 1,
    *,
    seconds: Mapping[str, float] | None = None,
    display: Display | None = None,
) -> list[Outcome]:
    """Run the steps in threads; a step that depends on a failed one is skipped.

    Args:
        steps: the steps, dependencies first.
        run: builds a step, with additional environment variables.
        cores: number of steps on the CPU that may run in parallel.
        gpus: number of steps on GPUs that may run in parallel, each on its own GPU.
        seconds: times that steps took before, by address; the step with the longest path to the end starts first.
        display: shows the start and end of each step.

    Returns:
        The outcomes, in the order of the steps.
    """
    outcomes: dict[str, Outcome] = {}
    running: dict[Future[Outcome], tuple[Step, int]] = {}
    waiting = longest_first(steps, seconds or {})

    def end(outcome: Outcome) -> None:
        outcomes[outcome.step.address] = outcome
        if display:
            display.ended(outcome)

    def attempt(step: Step, place: int) -> Outcome:
        own = step.device != "cpu" and gpus > 1
        return outcome_of(step, lambda: run(step, slots.visible_variables(step.device, place) if own else {}))

    with ThreadPoolExecutor(max_workers=cores + gpus) as pool, stopped_together():
        while waiting or running:
            for step in tuple(waiting):
                failed = [name for name in step.upstream if name in outcomes and outcomes[name].state in NOT_BUILT]
                on_cpu = step.device == "cpu"
                taken = {place for other, place in running.values() if (other.device == "cpu") == on_cpu}
                free = [place for place in range(cores if on_cpu else gpus) if place not in taken]
                unbuilt = {other.address for other in waiting} | {other.address for other, _ in running.values()}
                if failed:
                    waiting.remove(step)
                    end(Outcome(step, "Skipped", message=f"needs {failed[0]}"))
                elif free and unbuilt.isdisjoint(step.upstream):
                    waiting.remove(step)
                    if display:
                        display.started(step)
                    running[pool.submit(attempt, step, free[0])] = step, free[0]
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                del running[future]
                end(future.result())
    return [outcomes[step.address] for step in steps]


NOT_BUILT = ("Failed", "Skipped")
"""The states of an outcome without output, so that no further step can be built."""


def outcome_of(step: Step, run: Callable[[], Outcome]) -> Outcome:
    """The outcome that `run` returns, or a failed one if it raises an exception."""
    began = time.monotonic()
    try:
        return run()
    except CastawayError as error:
        message = str(error)
    except (Exception, SystemExit) as error:  # otherwise the step would have no outcome, and its failure be hidden
        message = f"{step.address} failed: {type(error).__name__}: {error}"
    return Outcome(step, "Failed", time.monotonic() - began, message)


def longest_first(steps: Sequence[Step], seconds: Mapping[str, float]) -> list[Step]:
    """The steps, ordered by the time of the longest path from each to the end of the pipeline, longest first.

    Args:
        steps: the steps, dependencies first.
        seconds: times of steps by address. A step without a time counts as the average of the others; if there are no
            times at all, the number of steps on the path decides.
    """
    average = fmean(seconds.values()) if seconds else 1.0
    longest: dict[str, float] = {}
    for step in reversed(steps):
        after = [longest[other.address] for other in steps if step.address in other.upstream]
        longest[step.address] = seconds.get(step.address, average) + max(after, default=0.0)
    return sorted(steps, key=lambda step: -longest[step.address])


def recorded_seconds(root: Path, steps: Sequence[Step]) -> dict[str, float]:
    """The seconds of each stage's last run, for those that have a run record."""
    found: dict[str, float] = {}
    for step in steps:
        name, _, run = step.address.partition("@")
        took = records.read_json(records.record_path(root, run, name)).get("seconds")
        if isinstance(took, int | float):
            found[step.address] = float(took)
    return found


def walk_with_prefect(
    steps: Sequence[Step], run: Callable[[Step, dict[str, str]], Outcome], params: Params
) -> list[Outcome]:
    """Run the steps as a Prefect flow, with one task for each step and one slot for each GPU.

    Raises:
        CastawayError: the Prefect server does not answer.
    """
    from flows.server import require_server

    require_server()
    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE
    from prefect.client.schemas.objects import State
    from prefect.states import Completed, Failed
    from prefect.task_runners import ThreadPoolTaskRunner

    outcomes: dict[str, Outcome] = {}
    devices = gpus(steps)

    def stage(address: str, index: int) -> State[Any]:
        step = by_address[address]

        def with_slot() -> Outcome:
            with slots.occupy(step.device, index, devices) as variables:
                return run(step, variables)

        outcome = outcomes[address] = outcome_of(step, with_slot)
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
        # Prefect does not start a task whose upstream task failed, so it leaves no outcome.
        for step in steps:
            outcomes.setdefault(step.address, Outcome(step, "Skipped", message="a stage that it needs failed"))
        report.show_in_prefect([outcomes[step.address] for step in steps])
        failed = [outcome.message for outcome in outcomes.values() if outcome.state == "Failed"]
        return Failed(message="; ".join(failed)) if failed else Completed(message=f"{len(steps)} stages are built")

    by_address = {step.address: step for step in steps}
    as_task: Any = task(name="stage", task_run_name="{address}", cache_policy=NO_CACHE, persist_result=False)(stage)
    runner: Any = ThreadPoolTaskRunner(max_workers=side_by_side(steps, params))
    flow(name="pipeline", task_runner=runner, persist_result=False)(pipeline)(return_state=True)
    return [outcomes[step.address] for step in steps]


def side_by_side(steps: Sequence[Step], params: Params) -> int:
    """How many tasks Prefect may run in parallel: as many as the cores allow, or any number if slots limit GPUs."""
    if any(step.device != "cpu" for step in steps):
        return len(steps)
    return cores(params)


def cores(params: Params) -> int:
    """How many stages on the CPU may run in parallel, if each uses `threads` cores."""
    return max(1, (os.cpu_count() or 1) // params.threads)


def gpus(steps: Sequence[Step]) -> int:
    """How many stages on GPUs may run in parallel; 0, without importing torch, if there is no such stage."""
    return max(1, len(hardware.visible_devices())) if any(step.device != "cpu" for step in steps) else 0


def gpu_index(address: str, tasks: Sequence[str], devices: int) -> int:
    """Index of a stage's GPU: one GPU per run, since the stages of a run mostly depend on each other."""
    task = address.partition("@")[2]
    return list(tasks).index(task) % devices if task in tasks else 0


def run_step(
    root: Path, step: Step, variables: dict[str, str], *, force: bool = False, log: Path | None = None
) -> Outcome:
    """Have DVC reproduce one stage, and report whether it ran, was cached or failed.

    Args:
        root: the root of the repository.
        step: the stage.
        variables: additional environment variables of the stage.
        force: run it even if nothing changed.
        log: file for its output; None to print it.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="castaway-") as folder:
        # DVC's exit status does not say whether the stage ran; the stage writes this file when it has finished.
        receipt = Path(folder) / "receipt.json"
        arguments = ["repro", "--single-item", *(["--force"] if force else []), step.address]
        try:
            status = dvc(root, arguments, {**variables, RECEIPT: str(receipt)}, log).wait(step.timeout_seconds)
        except TimeoutError:
            minutes = f"{step.timeout_seconds / 60:g} minutes (meta.timeout_minutes in dvc.yaml)"
            return Outcome(step, "Failed", time.monotonic() - began, f"{step.address} was stopped after {minutes}")
        ran = receipt.exists()
        if status != 0 and not (ran and rescue(root, step, records.read_json(receipt), log)):
            place = log.relative_to(root) if log else "the messages above"
            message = f"{step.address} failed with exit status {status}; see {place}"
            return Outcome(step, "Failed", time.monotonic() - began, message)
    made = records.record_of(root, step.outs[0]) if step.outs else {}
    return Outcome(step, "Ran" if ran else "Cached", time.monotonic() - began, record=made)


def rescue(root: Path, step: Step, ran: dict[str, Any], log: Path | None = None) -> bool:
    """Commit a stage that finished although DVC failed, because it could not take its lock again in time.

    Without this, the next `dvc repro` would delete the outputs and run the stage again.

    Args:
        root: the root of the repository.
        step: the stage.
        ran: the record that the stage left as its receipt.

    Returns:
        Whether the stage was committed. It is not if its inputs have changed since it read them.
    """
    if declared.load(root, step.address).inputs.stage_key != ran.get("stage_key"):
        return False
    return dvc(root, ["commit", "--force", step.address], {}, log).wait(step.timeout_seconds) == 0


def dvc(root: Path, arguments: Sequence[str], variables: dict[str, str], log: Path | None = None) -> Group:
    """Start DVC so that the `python` in its commands is the one that runs now.

    `--wait-for-lock` has no time limit. By default DVC waits 3 seconds, less than another stage may need for hashing.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", *arguments]
    # Python buffers output to a file, and the display could not show the progress.
    unbuffered = {"PYTHONUNBUFFERED": "1"} if log else {}
    return Group(command, root, {**variables, **unbuffered, "PATH": path}, log)
