"""Which files of parameters fit this host, by the estimates of `castaway profile`: params.yaml, and each profile.

    python -m castaway.tools.doctor.fits ROOT    prints it as JSON

It runs in a process of its own, as it takes seconds and imports torch.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from castaway.tools.hardware import Device, visible_devices
from castaway.tools.profiles.files import FOLDER, PARAMS, unknown_bases


@dataclass(frozen=True)
class Fit:
    """Whether a file of parameters can be built on this host, as far as device and memory are concerned."""

    name: str
    fits: bool
    why_not: str
    """What it needs that is not there; empty if it fits."""
    largest: str = ""
    """The stage that needs most of the host's memory; empty if there is no estimate."""
    memory: float = 0.0
    """Bytes that it needs."""


def fits(root: Path) -> list[Fit]:
    """Of params.yaml, and then of each profile."""
    devices = visible_devices()
    return [fit(path, root, devices) for path in (root / PARAMS, *sorted((root / FOLDER).glob("*.yaml")))]


def fit(path: Path, root: Path, devices: Sequence[Device]) -> Fit:
    """Of the parameters in a file, on a host with these GPUs."""
    try:
        return _fit(path.stem, read_params(path), root, devices)
    except CastawayError as error:
        return Fit(path.stem, False, str(error))


def _fit(name: str, params: Params, root: Path, devices: Sequence[Device]) -> Fit:
    if params.device != "cpu" and not (devices and devices[0].kind == params.device):
        return Fit(name, False, f"needs a GPU of the kind {params.device}")
    if unknown := unknown_bases(params, root):
        return Fit(name, False, f"cannot be estimated before base@{unknown[0]} is built")
    from castaway.tools.profiles.host import misfit
    from castaway.tools.profiles.stages import needs

    found = needs(params, root)
    largest = max(found, key=lambda need: need.host)
    why_not = misfit(found) or ""
    return Fit(name, not why_not, why_not, largest.address, largest.host)


if __name__ == "__main__":
    gc.disable()  # the process is short, and collecting garbage takes a third of the time of its imports
    print(json.dumps([asdict(one) for one in fits(Path(sys.argv[1]))]))
