"""The devices of this host: their kind, checked against a stage's `meta.device` in dvc.yaml, and who sees which GPU.

In torch, AMD's GPUs are called "cuda" too, and their product name is not reliable (it can be "AMD Radeon Graphics"). So
an MI300X is recognised by the ROCm build of torch, its architecture and its number of compute units.
"""

import os
import platform
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import psutil

from castaway.config.errors import CastawayError
from castaway.config.section import DeviceKind

KINDS: tuple[str, ...] = get_args(DeviceKind)

NODES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Where the drivers of NVIDIA, of Windows (under WSL) and of AMD show themselves on Linux."""

GIBIBYTE = 1024**3
CONTROL_GROUPS, OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""Where Linux has the limits of containers and services, and which group this process is in."""
MI300X_COMPUTE_UNITS = (304, 152, 76, 38)
"""Compute units of a whole MI300X, and of one partition in the modes DPX, QPX and CPX."""
MI300X_MEMORY = 200 * GIBIBYTE
"""Upper bound of an MI300X's memory, in bytes: it has 192 GiB, and an MI325X is the same chip with 256 GiB."""

VISIBLE = {"cuda": "CUDA_VISIBLE_DEVICES", "mi300x": "HIP_VISIBLE_DEVICES"}
"""The variable that selects a stage's GPU, by kind. For AMD only HIP's is set: ROCr's would apply on top of it."""
BELOW = "ROCR_VISIBLE_DEVICES"  # if the user has set it, HIP counts only the GPUs that it names
_environment = threading.RLock()  # held while the variables of this process name fewer GPUs than it may use


@dataclass(frozen=True)
class Device:
    kind: str
    """One of `KINDS`, or another kind: `mi325x`, `gfx942` (another GPU of that architecture), `rocm` (any other)."""
    name: str
    architecture: str = ""
    memory: int = 0  # in bytes
    compute_units: int = 0

    def __str__(self) -> str:
        if self.kind == "cpu":
            return self.name
        return f"{self.name} ({self.kind}, {self.architecture}, {self.memory / GIBIBYTE:.0f} GiB)"

    def facts(self) -> dict[str, str]:
        return {
            "device.kind": self.kind,
            "device.name": self.name,
            "device.architecture": self.architecture,
            "device.memory_gib": f"{self.memory / GIBIBYTE:.1f}",
            "device.compute_units": str(self.compute_units),
        }


CPU = Device(kind="cpu", name="CPU")


def torch_name(kind: str) -> str:
    """The name of a kind of device in PyTorch, which calls AMD's GPUs `cuda` too."""
    return kind if kind in ("cpu", "mps") else "cuda"


def classify(properties: Any, hip: str | None) -> Device:
    """The device that torch's `properties` describe; `hip` is `torch.version.hip`, which only the ROCm build has."""
    units, memory = int(properties.multi_processor_count), int(properties.total_memory)
    if hip is None:
        architecture = f"sm_{properties.major}{properties.minor}"
        return Device("cuda", properties.name, architecture, memory, units)
    architecture = str(properties.gcnArchName).split(":")[0]  # gfx942:sramecc+:xnack-
    if architecture != "gfx942":
        kind = "rocm"
    elif units not in MI300X_COMPUTE_UNITS:
        kind = "gfx942"  # MI300A has 228 of them, MI308X 80
    else:
        kind = "mi300x" if memory <= MI300X_MEMORY else "mi325x"
    return Device(kind, properties.name, architecture, memory, units)


def visible_devices() -> list[Device]:
    # Importing torch takes seconds, and is needless where the kernel knows of no GPU.
    if sys.platform == "linux" and not any(Path(node).exists() for node in NODES):
        return []
    import torch

    if sys.platform == "darwin" and torch.backends.mps.is_available():
        return [Device("mps", "Apple GPU", platform.machine(), torch.mps.recommended_max_memory())]
    if not torch.cuda.is_available():
        return []
    count = torch.cuda.device_count()
    return [classify(torch.cuda.get_device_properties(index), torch.version.hip) for index in range(count)]


def host_memory() -> int:
    """Bytes of memory that this process may use: those of the machine, or of its container."""
    return min([int(psutil.virtual_memory().total), *(limit for _, (limit,) in limits("memory.max"))])


def limits(name: str) -> Iterator[tuple[Path, list[int]]]:
    """The numbers in the files of a name, such as `memory.max`, of this process's group and those around it."""
    lines = OWN_GROUP.read_text("utf-8").splitlines() if OWN_GROUP.exists() else []
    own = Path(*(line.removeprefix("0::/") for line in lines if line.startswith("0::/")))
    for group in (own, *own.parents):  # `..` where the group lies outside what a container sees
        file = CONTROL_GROUPS / group / name
        if ".." not in group.parts and file.is_file() and "max" not in (words := file.read_text("ascii").split()):
            yield file.parent, [int(word) for word in words]


def require(kind: str, stage: str) -> Device:
    """The device that `stage`, which is pinned to this kind, will run on; CastawayError as from `choose`."""
    return CPU if kind == "cpu" else choose(kind, stage, visible_devices())


def choose(kind: str, stage: str, devices: list[Device]) -> Device:
    """The first of `devices`, which is the one that torch uses; CastawayError if it is not of that `kind`."""
    if kind not in KINDS:
        raise CastawayError(f"dvc.yaml pins {stage} to {kind!r}, expected one of {', '.join(KINDS)}")
    if devices and devices[0].kind == kind:
        return devices[0]
    present = f"the first GPU is {devices[0]}" if devices else "torch sees no GPU"
    raise CastawayError(
        f"{stage} is pinned to {kind} but {present} on this host; "
        "run it on a host that has one, or change `device` in params.yaml or `pins` in host.yaml"
    )


def cores() -> int:
    """The cores that this process may use: those of the machine, or what its container has of them, rounded down."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([there, *(quota // period for _, (quota, period) in limits("cpu.max"))]))


def free_gibibytes() -> float:
    """The memory that is left: of the machine, or of the container, whose cached files can be dropped."""
    free = float(psutil.virtual_memory().available)
    for group, (limit,) in limits("memory.max"):
        counted = dict(line.split() for line in (group / "memory.stat").read_text("ascii").splitlines())
        used = int((group / "memory.current").read_text("ascii")) - int(counted.get("inactive_file", 0))
        free = min(free, float(limit - used))
    return free / GIBIBYTE


def visible_variables(kind: str, indices: Sequence[int]) -> dict[str, str]:
    """The variable that makes only the GPUs at `indices` visible, counted among the GPUs that are visible now.

    A Mac has one GPU, and no such variable.
    """
    if kind not in VISIBLE:
        return {}
    now = listed(VISIBLE[kind])
    return {VISIBLE[kind]: ",".join(now[index] if index < len(now) else str(index) for index in indices)}


@contextmanager
def seeing(visible: Mapping[str, str]) -> Iterator[None]:
    """Context in which a process that is started sees these GPUs alone; other threads count them as before."""
    with _environment:
        before = {name: os.environ.get(name) for name in visible}
        os.environ.update(visible)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def listed(variable: str) -> list[str]:
    with _environment:
        return [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
