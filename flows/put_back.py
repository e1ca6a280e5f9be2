"""Puts back what DVC deleted, if the stage then refuses to run.

DVC deletes the outputs of a stage before it starts its command. `persist: true` in dvc.yaml would keep them, but DVC
saves no run of such a stage in its run-cache, so a parameter that is set back would be trained again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from castaway.tools.lineage.locked import locked_stages
from flows import declared
from flows.lifeline import STAGE


def put_back(root: Path, address: str) -> None:
    """Restore the outputs that `dvc.lock` records for the stage from DVC's cache, if DVC has deleted them for this run.

    What the cache lacks is named in a warning; nothing is raised, because the refusal matters more.
    """
    if os.environ.get(STAGE) != address or not (root / "dvc.lock").exists():
        return
    lost: list[str] = []
    try:
        known = locked_stages(root).get(address)
        if known is None:
            return
        stage = declared.load(root, address).stage
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
