"""What a build consists of: DVC's graph as a list of steps, and which of them must run, said before anything changes.

A stage that is pinned to a device this host lacks is refused. What is built already, elsewhere or earlier, is no
obstacle: DVC restores it on any host.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from castaway.config.errors import CastawayError, first_line
from castaway.metrics.built import locked_stages
from castaway.processes import hardware
from castaway.tracking import dvc_stage
from flows.steps import POOL, Step


def repo_of(root: Path) -> Any:
    """DVC's view of the repository as it is now; it takes a second."""
    from dvc.exceptions import DvcException

    try:
        return dvc_stage.repo_of(root)
    except DvcException as error:
        raise CastawayError(f"DVC cannot be used in {root}: {first_line(error)}") from None


def plan(root: Path, targets: Sequence[str], repo: Any = None) -> list[Step]:
    """The targets, or all stages, and what they depend on, dependencies first; `repo` as `repo_of` gives it."""
    from dvc.exceptions import DvcException
    from dvc.repo.reproduce import collect_stages, get_active_graph, plan_repro
    from dvc.stage.exceptions import StageNotFound

    try:
        repo = repo or repo_of(root)
        graph = get_active_graph(repo.index.graph)
        stages = plan_repro(graph, collect_stages(repo, targets) if targets else None)
    except StageNotFound as error:
        # DVC takes `sft` for all stages `sft@RUN`. Of several targets, the first that is missing is told.
        known = [stage.addressing for stage in repo.stage.load_all()]
        taken = {*known, *(name.partition("@")[0] for name in known)}
        raise dvc_stage.no_stage(next((one for one in targets if one not in taken), str(error)), known) from None
    except DvcException as error:
        raise CastawayError(f"dvc.yaml cannot be used: {' '.join(str(error).split())}") from None
    # The edges of DVC's graph lead from a stage to those that it depends on.
    return [_step(root, stage, sorted(one.addressing for one in graph.successors(stage))) for stage in stages]


def _step(root: Path, stage: Any, upstream: Sequence[str]) -> Step:
    one = dvc_stage.DvcStage(root, stage.addressing, stage)
    return Step(
        one.address,
        tuple(upstream),
        one.device,
        one.timeout_seconds,
        outs=tuple(one.outs),
        reads=tuple(one.reads),
        locked=one.locked,
        processes=max(one.torchrun.nproc_per_node, one.vllm.gpus),
        retries=one.retries,
    )


def require_devices(root: Path, steps: Sequence[Step], *, force: bool = False) -> None:
    """Raise CastawayError if one of the steps has to run on a device that this host lacks."""
    for step in steps:
        try:
            if not step.device.startswith(POOL):
                hardware.require(step.device, step.address)
        except CastawayError:
            if force or must_run(root, step.address):
                raise


def unchanged(root: Path, steps: Sequence[Step], repo: Any = None) -> frozenset[str]:
    """Addresses of the steps that DVC would leave as they are: neither they nor what they depend on has changed.

    One question for all steps: a `dvc repro` for each takes half a second longer. Where DVC cannot answer, because
    another process holds its lock, the answer is none.
    """
    from dvc.exceptions import DvcException

    try:
        changed = (repo or repo_of(root)).status()
    except DvcException:
        return frozenset()
    same: set[str] = set()
    for step in steps:
        if step.address not in changed and same.issuperset(step.upstream):
            same.add(step.address)
    return frozenset(same)


def must_run(root: Path, address: str) -> bool:
    """Whether DVC would run the stage now, and neither leave nor restore what was built before."""
    stage = dvc_stage.load(root, address)
    try:
        key = stage.inputs.stage_key
    except CastawayError:  # an input does not exist yet
        return True
    known = locked_stages(root).get(address) if (root / "dvc.lock").exists() else None
    if known and known.key == key and all((root / path).exists() for path in known.outs):
        return False
    # As DVC does: its own `restore` cannot be asked without restoring.
    cache = stage.stage.repo.stage_cache
    entry = known.entry if known and known.key == key else cache._load(stage.stage)
    return entry is None or not cache._create_stage(entry, wdir=stage.stage.wdir).outs_cached()
