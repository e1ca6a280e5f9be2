"""What the host offers: its memory, that of its GPU, and how fast it multiplies; and whether a build fits into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING

import psutil
import torch

if TYPE_CHECKING:
    from castaway.tools.profiles.stages import Need

GIGABYTE = 1e9
CONTROL_GROUP = Path("/sys/fs/cgroup/memory.max")
"""The limit of a container's memory, in bytes, or `max`."""


@dataclass(frozen=True)
class Speed:
    """How fast a device computes. Rough: memory, caches and other processes are not modelled."""

    operations: float
    """Multiplications and additions per second in products of large matrices."""
    bandwidth: float
    """Bytes that are read per second."""
    overhead: float
    """Seconds for each layer of each pass."""

    def reading(self, operations: float, layers: int) -> float:
        """Seconds of forward passes."""
        return operations / (0.6 * self.operations)

    def training(self, operations: float, passes: float, layers: int) -> float:
        """Seconds of forward and backward passes, and steps of the optimiser."""
        return operations / (0.5 * self.operations) + 8 * self.overhead * layers * passes

    def drawing(self, operations: float, steps: float, weights: float, layers: int) -> float:
        """Seconds of sampling; in each step all weights are read."""
        return operations / (0.3 * self.operations) + steps * (weights / self.bandwidth + layers * self.overhead)


GPUS = {"cuda": Speed(7e13, 8e11, 8e-4), "mi300x": Speed(6e14, 4e12, 8e-4)}
"""Assumed, not measured: a card of 24 GB such as an RTX 3090, and half of what AMD states for bfloat16."""


def speed_of(device: str, threads: int) -> Speed:
    """The speed of this host's processor, measured in a moment, or the assumed one of a GPU."""
    if device != "cpu":
        return GPUS[device]
    size, before = 768, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        one, other = torch.ones(size, size), torch.ones(size, size)
        torch.mm(one, other)
        best = min(_seconds(one, other) for _ in range(6))
    finally:
        torch.set_num_threads(before)
    return Speed(threads * 2 * size**3 / best, 1e10, 3e-4)


def _seconds(one: torch.Tensor, other: torch.Tensor) -> float:
    """Of this thread's own time, so that other processes do not count."""
    began = thread_time()
    torch.mm(one, other)
    return thread_time() - began


def host_memory() -> float:
    """Bytes of memory that this process may use: those of the machine, or of its container."""
    total = float(psutil.virtual_memory().total)
    try:
        limit = CONTROL_GROUP.read_text("ascii").strip()
    except OSError:
        return total
    return min(total, float(limit)) if limit.isdigit() else total


def device_memory() -> float | None:
    """Bytes of memory of the first GPU that torch sees; None if it sees none."""
    if not torch.cuda.is_available():
        return None
    return float(torch.cuda.get_device_properties(0).total_memory)


def misfit(needed: Sequence[Need]) -> str | None:
    """Why the stages do not fit into this host, in one sentence about the one that is furthest off; None if they do.

    A GPU is only looked at where torch sees one: a profile may be prepared on another machine.
    """
    host, device = host_memory(), device_memory()
    found = [(need.host / host, need, need.host, host, "this host") for need in needed]
    if device:
        found += [(need.device / device, need, need.device, device, "its GPU") for need in needed if need.device]
    share, need, wants, has, place = max(found, key=lambda one: one[0], default=(0.0, None, 0.0, 0.0, ""))
    if need is None or share <= 1:
        return None
    return (
        f"does not fit: {need.address} needs about {wants / GIGABYTE:.1f} GB, {place} has {has / GIGABYTE:.1f} GB; "
        f"{need.remedy}"
    )
