"""The device that params.yaml names with its driver, the cores, and the memory beside what the stages need."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tools.doctor.asking import run
from castaway.tools.doctor.finding import Finding, failed, ok, warning
from castaway.tools.doctor.probe import Fit, Probed
from castaway.tools.hardware import CPU, choose

PROCESSOR = Path("/proc/cpuinfo")
AMD_DEVICE = Path("/dev/kfd")
"""Through which ROCm reaches AMD's GPUs."""


@dataclass(frozen=True)
class Machine:
    """What torch sees, or why it could not be asked."""

    findings: list[Finding]
    profiles: list[Fit] = field(default_factory=list)


def machine(root: Path, params: Params) -> Machine:
    """Findings about device, cores and memory, and which profiles fit."""
    try:
        # A number of threads that is fixed, so that importing torch starts no more.
        command = [sys.executable, "-m", "castaway.tools.doctor.probe", str(root)]
        probed = Probed.read(run(command, Path.cwd(), {"OMP_NUM_THREADS": "1"}))
    except (CastawayError, ValueError) as error:
        unknown = failed(
            "device", f"torch cannot be asked: {error}", "run `make setup`, and check the driver of the GPU"
        )
        return Machine([unknown, cores(params)])
    return Machine([device(params.device, probed), cores(params), memory(probed.own)], probed.profiles)


def device(kind: str, probed: Probed) -> Finding:
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


def cores(params: Params) -> Finding:
    """Whether there is a core for each thread; and whether the processor has the instructions of recorded results."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = max(params.for_run(name).ppo.processes for name in params.tasks)
    name, flags = processor()
    found = f"{count}, {name}; load {os.getloadavg()[0]:.1f}"
    if params.threads * processes > count:
        wanted = f"{params.threads} threads in {processes} processes"
        return warning("cores", f"{found}; params.yaml asks for {wanted}", "lower threads or ppo.processes")
    if flags and "avx2" not in flags:
        return warning("cores", f"{found}; without AVX2", "expect other bytes than the recorded ones")
    return ok("cores", found)


def processor() -> tuple[str, set[str]]:
    """The name of the processor and its flags, as the kernel says them."""
    text = PROCESSOR.read_text("utf-8") if PROCESSOR.exists() else ""
    name = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*: (.+)$", text, re.MULTILINE)
    return name.group(1) if name else "unknown processor", set(flags.group(1).split()) if flags else set()


def memory(own: Fit) -> Finding:
    """Whether the stages of params.yaml fit into the memory."""
    free = psutil.virtual_memory().available
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
