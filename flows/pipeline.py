"""The driver of the pipeline: goes through DVC's graph, and has DVC run or restore one stage after another.

    python -m flows pipeline                      every stage of every run in params.yaml
    python -m flows pipeline ppo@marooned         one stage and the stages that it needs
    python -m flows pipeline --teacher WEIGHTS    serve the teacher with vLLM for the stages that use it

Independent stages run in parallel, as many as cores and memory allow, and each GPU is used by one stage at a time. The
stage with the longest path to the end starts first; each writes its output to scratch/logs. DVC is the only cache, and
every stage ends as "Ran" or "Cached", or the exit status is not 0. MLflow gets one parent run, and the user's Prefect
server, if there is one, a flow run with one task run per stage. Losing either changes nothing that is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from castaway.tools import hardware
from castaway.tools.host_file import load_host
from castaway.tools.prefect_address import address
from flows import declared, environment, report, slots
from flows.display import Display, log_path, new_log
from flows.elsewhere import build_elsewhere, sent
from flows.process import interruptible
from flows.ready import require_devices, unchanged
from flows.registry import after_build
from flows.report import POOL, Outcome, Step
from flows.reproduce import cached, run_step
from flows.teacher import Weights, on_gpus, serving_for, what_to_serve
from flows.turn import turn
from flows.walk import Memory, Watcher, cores, free_gibibytes, gpus, recorded, walk


def main(targets: Sequence[str], *, force: bool, teacher: Weights | None = None) -> int:
    """Build the targets.

    Args:
        targets: addresses of stages; none stands for all stages.
        force: run every stage, even if nothing changed.
        teacher: what to serve for the stages that use the teacher; None to serve nothing.

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
    with interruptible():
        steps = sent(plan(root, targets), load_host(root))
        require_devices(root, steps, force=force)
        if teacher:
            steps = on_gpus(root, steps, hardware.visible_devices())
        with turn(root):
            outcomes = build(root, params, targets, steps, force=force, teacher=teacher)
    report.show(outcomes)
    after_build(root, params, outcomes)
    failed = [outcome.message for outcome in outcomes if outcome.state == "Failed"]
    if not all(outcome.built for outcome in outcomes):
        raise CastawayError("; ".join(failed) or "not every stage was built")
    return 0


def plan(root: Path, targets: Sequence[str]) -> list[Step]:
    """The targets and all stages that they depend on, dependencies first.

    Raises:
        CastawayError: dvc.yaml is invalid, or has no such target.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.repo.reproduce import collect_stages, get_active_graph, plan_repro
    from dvc.stage.exceptions import StageNotFound

    try:
        repo = Repo(str(root))
        graph = get_active_graph(repo.index.graph)
        stages = plan_repro(graph, collect_stages(repo, targets) if targets else None)
    except StageNotFound as error:
        # DVC takes `sft` for all stages `sft@RUN`. Of several targets, the first that is missing is told.
        known = [stage.addressing for stage in repo.stage.load_all()]
        taken = {*known, *(name.partition("@")[0] for name in known)}
        raise declared.no_stage(next((one for one in targets if one not in taken), str(error)), known) from None
    except DvcException as error:
        raise CastawayError(f"dvc.yaml cannot be used: {' '.join(str(error).split())}") from None
    steps = []
    for stage in stages:
        one = declared.Declared(root, stage.addressing, stage)
        # The edges of DVC's graph lead from a stage to those that it depends on.
        upstream = tuple(sorted(needed.addressing for needed in graph.successors(stage)))
        reads = tuple(path for dep in stage.deps if (path := str(dep.def_path)).startswith("data/"))
        outs, processes = tuple(one.outs), one.torchrun.nproc_per_node
        steps.append(
            Step(one.address, upstream, one.device, one.timeout_seconds, outs, reads, one.locked, processes=processes)
        )
    return steps


def build(
    root: Path, params: Params, targets: Sequence[str], steps: Sequence[Step], *, force: bool, teacher: Weights | None
) -> list[Outcome]:
    """Build the steps, shown on the screen, in MLflow, and in Prefect if there is a server.

    A build in which nothing has to run leaves no run in MLflow, whose import takes longer than everything else then.
    """
    same = frozenset[str]() if force else unchanged(root, steps)
    idle = same.issuperset(step.address for step in steps)
    with ExitStack() as stack:
        parent = None if idle else stack.enter_context(report.Parent(root, targets))
        watchers: list[Watcher] = []
        flow = None
        if address():
            from flows.prefect_runs import FlowRun

            name = " ".join(targets) or "everything"
            flow = stack.enter_context(FlowRun("pipeline", name, steps=steps, log=partial(log_path, root)))
            watchers.append(flow)

        def run(step: Step, places: Sequence[int]) -> Outcome:
            if step.address in same:
                return cached(root, step)
            if step.device.startswith(POOL):
                return build_elsewhere(root, step, new_log(root, step.address), force=force)
            own = step.device != "cpu" and devices > 1
            visible = slots.visible_variables(step.device, places) if own else {}
            served = serving_for(root, step.address, teacher, params.teacher, visible) if teacher else nullcontext()
            shown = {**(parent.variables if parent else {}), **(flow.variables(step) if flow else {})}
            with slots.occupy(step.device, places, step.address), served:
                return run_step(root, step, {**visible, **shown}, force=force, log=new_log(root, step.address))

        devices, seconds = gpus(steps), recorded(root, steps, "seconds")
        memory = Memory(free_gibibytes(), recorded(root, steps, "peak_memory_gib"))
        with Display(root) as display:
            outcomes = walk(
                steps, run, cores(params), devices, seconds=seconds, memory=memory, watchers=[display, *watchers]
            )
        results = report.results_of(root, outcomes)
        if parent:
            parent.finish(outcomes, results)
        if flow:
            flow.finish(outcomes, results)
    return outcomes
