"""Detects the kind of GPU of this host, and checks it against the device of a stage (`meta.device` in dvc.yaml).

In torch, AMD's GPUs are called "cuda" too, and their product name is not reliable (it can be "AMD Radeon Graphics"). So
an MI300X is recognised by the ROCm build of torch, its architecture and its number of compute units.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castaway.errors import CastawayError

KINDS = ("cpu", "cuda", "mi300x")
"""The kinds of device that a stage can be pinned to."""

NODES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Where the drivers of NVIDIA, of Windows (under WSL) and of AMD show themselves on Linux."""

GIBIBYTE = 1024**3
MI300X_COMPUTE_UNITS = (304, 152, 76, 38)
"""Compute units of a whole MI300X, and of one partition in the modes DPX, QPX and CPX."""
MI300X_MEMORY = 200 * GIBIBYTE
"""Upper bound of an MI300X's memory, in bytes: it has 192 GiB, and an MI325X is the same chip with 256 GiB."""


@dataclass(frozen=True)
class Device:
    """One device, as its driver describes it."""

    kind: str
    """One of `KINDS`, or another kind: `mi325x`, `gfx942` (another GPU of that architecture), `rocm` (any other)."""
    name: str
    architecture: str = ""
    memory: int = 0
    """In bytes."""
    compute_units: int = 0

    def __str__(self) -> str:
        if self.kind == "cpu":
            return self.name
        return f"{self.name} ({self.kind}, {self.architecture}, {self.memory / GIBIBYTE:.0f} GiB)"

    def facts(self) -> dict[str, str]:
        """The device as tags of an MLflow run."""
        return {
            "device.kind": self.kind,
            "device.name": self.name,
            "device.architecture": self.architecture,
            "device.memory_gib": f"{self.memory / GIBIBYTE:.1f}",
            "device.compute_units": str(self.compute_units),
        }


CPU = Device(kind="cpu", name="CPU")


def classify(properties: Any, hip: str | None) -> Device:
    """The device that torch's `properties` describe.

    Args:
        properties: what `torch.cuda.get_device_properties` returns.
        hip: `torch.version.hip`, which only the ROCm build of torch has.
    """
    units, memory = int(properties.multi_processor_count), int(properties.total_memory)
    if hip is None:
        architecture = f"sm_{properties.major}{properties.minor}"
        return Device("cuda", properties.name, architecture, memory, units)
    architecture = str(properties.gcnArchName).split(":")[0]  # gfx942:sramecc+:xnack-
    kind = _amd_kind(architecture, units, memory)
    return Device(kind, properties.name, architecture, memory, units)


def _amd_kind(architecture: str, units: int, memory: int) -> str:
    if architecture != "gfx942":
        return "rocm"
    if units not in MI300X_COMPUTE_UNITS:
        return "gfx942"  # MI300A has 228 of them, MI308X 80
    return "mi300x" if memory <= MI300X_MEMORY else "mi325x"


def visible_devices() -> list[Device]:
    """The GPUs that torch can use, in the order of their indices."""
    # Importing torch takes seconds, and is needless where the kernel knows of no GPU.
    if sys.platform == "linux" and not any(Path(node).exists() for node in NODES):
        return []
    import torch

    if not torch.cuda.is_available():
        return []
    count = torch.cuda.device_count()
    return [classify(torch.cuda.get_device_properties(index), torch.version.hip) for index in range(count)]


def has(kind: str) -> bool:
    """Whether the first GPU of this host, which torch uses, is of that kind."""
    devices = visible_devices()
    return kind == "cpu" or bool(devices and devices[0].kind == kind)


def require(kind: str, stage: str) -> Device:
    """The device that `stage` will run on.

    Raises:
        CastawayError: the first GPU of this host is not of the `kind` that the stage is pinned to.
    """
    if kind == "cpu":
        return CPU
    return choose(kind, stage, visible_devices())


def choose(kind: str, stage: str, devices: list[Device]) -> Device:
    """The first of `devices`, which is the one that torch uses, if it is of that `kind`.

    Raises:
        CastawayError: there is none, or it is of another kind, or `kind` is unknown.
    """
    if kind not in KINDS:
        raise CastawayError(f"dvc.yaml pins {stage} to {kind!r}, expected one of {', '.join(KINDS)}")
    if devices and devices[0].kind == kind:
        return devices[0]
    found = f"the first GPU is {devices[0]}" if devices else "torch sees no GPU"
    raise CastawayError(
        f"{stage} is pinned to {kind} but {found} on this host; "
        "run it on a host that has one, or change `device` in params.yaml or `pins` in host.yaml"
    )
