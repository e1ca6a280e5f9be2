"""What has to run, and whether this host can run it; said before anything is changed.

A stage that is pinned to a device this host lacks is refused. What is built already, elsewhere or earlier, is no
obstacle: DVC restores it on any host.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from castaway.errors import CastawayError
from castaway.tools import hardware
from castaway.tools.lineage.locked import locked_stages
from flows import declared
from flows.report import POOL, Step


def require_devices(root: Path, steps: Sequence[Step], *, force: bool = False) -> None:
    """Refuse if one of the steps has to run on a device that this host lacks.

    Raises:
        CastawayError: it has; the sentence names the stage, the device, what was found and what to change.
    """
    missing: dict[str, bool] = {"cpu": False}
    for step in steps:
        if step.device.startswith(POOL):
            continue
        if step.device not in missing:
            missing[step.device] = not hardware.has(step.device)
        if missing[step.device] and (force or must_run(root, step.address)):
            hardware.require(step.device, step.address)


def unchanged(root: Path, steps: Sequence[Step]) -> frozenset[str]:
    """Addresses of the steps that DVC would leave as they are: neither they nor what they depend on has changed.

    One question for all steps: a `dvc repro` for each takes half a second longer. Where DVC cannot answer, because
    another process holds its lock, the answer is none.

    Args:
        root: the root of the repository.
        steps: the steps, dependencies first.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        changed = Repo(str(root)).status()
    except DvcException:
        return frozenset()
    found: set[str] = set()
    for step in steps:
        if step.address not in changed and found.issuperset(step.upstream):
            found.add(step.address)
    return frozenset(found)


def must_run(root: Path, address: str) -> bool:
    """Whether DVC would run the stage now, and neither leave nor restore what was built before."""
    stage = declared.load(root, address)
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
