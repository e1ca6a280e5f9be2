"""The memory of this host beside what the stages need; and, by the same estimates, which profiles it can run."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from castaway.errors import CastawayError
from castaway.tools.doctor.asking import run
from castaway.tools.doctor.finding import Finding, failed, ok, warning
from castaway.tools.doctor.fits import Fit

ESTIMATE_SECONDS = 60.0
"""How long the estimates may take: a few seconds on an idle host."""


@dataclass(frozen=True)
class Estimated:
    """What the estimates say."""

    findings: list[Finding]
    profiles: list[Fit] = field(default_factory=list)
    """Empty if nothing could be estimated."""


def estimated(root: Path) -> Estimated:
    """One finding about the memory, and which profiles fit."""
    command = [sys.executable, "-m", "castaway.tools.doctor.fits", str(root)]
    try:
        told = json.loads(run(command, Path.cwd(), ESTIMATE_SECONDS))
    except (CastawayError, ValueError) as error:
        found = f"{_free() / 1e9:.1f} GB free; nothing was estimated: {error}"
        return Estimated([warning("memory", found, "ask again on an idle host, or mend what it names")])
    own, *profiles = (Fit(**one) for one in told)
    return Estimated([memory(own)], profiles)


def memory(own: Fit) -> Finding:
    """Whether the stages of params.yaml fit into the memory.

    Args:
        own: the estimate of params.yaml.
    """
    free = _free()
    found = f"{free / 1e9:.1f} GB free"
    if not own.largest:
        return ok("memory", f"{found}; params.yaml {own.why_not}")
    if not own.fits:
        told, _, remedy = own.why_not.partition("; ")
        return failed("memory", told, remedy)
    found += f"; {own.largest} needs about {own.memory / 1e9:.1f} GB"
    if own.memory > free:
        return warning("memory", found, "stop other programs before the build")
    return ok("memory", found)


def _free() -> float:
    return float(psutil.virtual_memory().available)
