"""The device that params.yaml names, its driver, and torch's build."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from castaway.errors import CastawayError
from castaway.tools.doctor.asking import run
from castaway.tools.doctor.finding import Finding, failed, ok
from castaway.tools.doctor.probe import Probed
from castaway.tools.hardware import CPU, choose

PROBE_SECONDS = 30.0
"""How long torch may take to be imported and to look for GPUs: two seconds on an idle host."""
AMD_DEVICE = Path("/dev/kfd")
"""Through which ROCm reaches AMD's GPUs."""


def device(kind: str) -> list[Finding]:
    """One finding about the device of that kind.

    Args:
        kind: `device` in params.yaml.
    """
    try:
        told = run([sys.executable, "-m", "castaway.tools.doctor.probe"], Path.cwd(), PROBE_SECONDS)
        return [seen(kind, Probed.read(told))]
    except (CastawayError, ValueError) as error:
        return [failed("device", f"torch cannot be asked: {error}", "run `make setup`, and look at the GPU's driver")]


def seen(kind: str, probed: Probed) -> Finding:
    """Whether torch sees the device that stages are pinned to."""
    about = f"torch {probed.torch}, {probed.driver or 'no driver for GPUs'}"
    if kind == "cpu":
        return ok("device", f"{CPU}; {about}")
    try:
        return ok("device", f"{choose(kind, 'params.yaml', probed.devices)}; {about}")
    except CastawayError as error:
        found, _, remedy = str(error).partition("; ")
        return failed("device", f"{found}; {about}", _hidden(probed) or remedy)


def _hidden(probed: Probed) -> str:
    """What to do if there is a driver and torch still sees no GPU; empty if there is no driver."""
    if probed.devices or not probed.driver:
        return ""
    if probed.driver.startswith("nvidia"):
        return "remove torch from .venv and run `make setup`, which then fetches the build for CUDA"
    if not os.access(AMD_DEVICE, os.R_OK | os.W_OK):
        return f"make {AMD_DEVICE} accessible: groups video and render for a user, --device for a container"
    return "install AMD's build of torch into .venv before `make setup` (docs/setup.md)"
