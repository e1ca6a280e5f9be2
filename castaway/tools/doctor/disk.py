"""Disk space: what is free, beside what a build of params.yaml writes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from castaway.config.params import Params
from castaway.tools.doctor.finding import Finding, failed, ok, warning
from castaway.tools.profiles.architecture import architecture_of

RECORDS = 1e9
"""Bytes for data sets, adapters, checkpoints, episodes, logs and MLflow. Assumed; the shipped runs take less."""
COPIES = 2
"""An output is in `data`, and in DVC's cache; where the file system has reflinks they share their place."""
HALF, FULL = 2, 4
"""Bytes of a weight in bfloat16 and in float32."""


def disk(root: Path, params: Params) -> list[Finding]:
    """One finding about the file system of the repository."""
    if not os.access(root, os.W_OK):
        return [failed("disk", f"{root} cannot be written to", "change its owner or its permissions")]
    free, needed = shutil.disk_usage(root).free, written(params, root)
    found = f"{free / 1e9:.1f} GB free in {root}; a build writes about {needed / 1e9:.1f} GB"
    if free < needed:
        return [failed("disk", found, "free some space: `dvc gc --workspace` removes old outputs from DVC's cache")]
    if free < COPIES * needed:
        return [warning("disk", found, "free some space before the next build: DVC's cache keeps every version")]
    return [ok("disk", found)]


def written(params: Params, root: Path) -> float:
    """Bytes that a build writes: base models, one merged model for each run, and records."""
    sizes = {run.base: architecture_of(params, run.base, root) for run in params.tasks.values()}
    total = RECORDS + sum(COPIES * HALF * one.parameters for one in sizes.values() if one)
    for name, run in params.tasks.items():
        merged = FULL if params.for_run(name).merge.dtype == "float32" else HALF
        if one := sizes[run.base]:
            total += COPIES * merged * one.parameters
    return total
