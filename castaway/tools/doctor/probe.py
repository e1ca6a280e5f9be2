"""What torch sees, and which parameters fit this host: asked in a process of its own, since a broken driver can hang.

python -m castaway.tools.doctor.probe ROOT    prints it as JSON
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from castaway.tools.hardware import Device, driver, visible_devices
from castaway.tools.profiles.files import FOLDER, PARAMS, unknown_bases


@dataclass(frozen=True)
class Fit:
    """Whether a file of parameters can be built on this host."""

    name: str
    fits: bool
    why_not: str
    """What it needs that is not there; empty if it fits."""
    largest: str = ""
    """The stage that needs most of the host's memory; empty if there is no estimate."""
    memory: float = 0.0
    """Bytes that it needs."""


@dataclass(frozen=True)
class Probed:
    """What the process prints."""

    torch: str
    """The version of torch, which names its build."""
    driver: str
    devices: list[Device]
    own: Fit
    """Of params.yaml."""
    profiles: list[Fit]

    @classmethod
    def read(cls, text: str) -> Probed:
        """From what the process prints."""
        found: dict[str, Any] = json.loads(text)
        return cls(
            found["torch"],
            found["driver"],
            [Device(**one) for one in found["devices"]],
            Fit(**found["own"]),
            [Fit(**one) for one in found["profiles"]],
        )


def probe(root: Path) -> Probed:
    """Ask torch, and estimate what params.yaml and each profile need."""
    import torch

    devices = visible_devices()
    own = fit(root / PARAMS, root, devices)
    profiles = [fit(path, root, devices) for path in sorted((root / FOLDER).glob("*.yaml"))]
    return Probed(torch.__version__, driver(), devices, own, profiles)


def fit(path: Path, root: Path, devices: Sequence[Device]) -> Fit:
    """Whether the parameters in a file can be built here, as far as device and memory are concerned."""
    try:
        return _fit(path.stem, read_params(path), root, devices)
    except CastawayError as error:
        return Fit(path.stem, False, str(error))


def _fit(name: str, params: Params, root: Path, devices: Sequence[Device]) -> Fit:
    from castaway.tools.profiles.host import misfit
    from castaway.tools.profiles.stages import needs

    if params.device != "cpu" and not (devices and devices[0].kind == params.device):
        return Fit(name, False, f"needs a GPU of the kind {params.device}")
    if unknown := unknown_bases(params, root):
        return Fit(name, False, f"cannot be estimated before base@{unknown[0]} is built")
    found = needs(params, root)
    largest = max(found, key=lambda need: need.host)
    why_not = misfit(found) or ""
    return Fit(name, not why_not, why_not, largest.address, largest.host)


if __name__ == "__main__":
    print(json.dumps(asdict(probe(Path(sys.argv[1])))))
