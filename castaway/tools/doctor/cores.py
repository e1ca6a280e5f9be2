"""The cores of this host, beside the threads that a build uses."""

from __future__ import annotations

import os
import re
from pathlib import Path

from castaway.config.params import Params
from castaway.tools.doctor.finding import Finding, ok, warning

PROCESSOR = Path("/proc/cpuinfo")


def cores(params: Params, processes: int = 1) -> list[Finding]:
    """One finding: whether there is a core for each thread, and AVX2, with which the recorded results were made.

    Args:
        params: of the repository.
        processes: number of processes that train together on this host.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    name, flags = processor()
    found = f"{count}, {name}; load {os.getloadavg()[0]:.1f}"
    if params.threads * processes > count:
        wanted = f"{params.threads} threads in each of {processes} processes"
        return [warning("cores", f"{found}; params.yaml asks for {wanted}", "lower threads, or torchrun in host.yaml")]
    if flags and "avx2" not in flags:
        return [warning("cores", f"{found}; without AVX2", "expect other bytes than the recorded ones")]
    return [ok("cores", found)]


def processor() -> tuple[str, set[str]]:
    """The name of the processor and its flags, as the kernel says them."""
    text = PROCESSOR.read_text("utf-8") if PROCESSOR.exists() else ""
    name = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*: (.+)$", text, re.MULTILINE)
    return name.group(1) if name else "unknown processor", set(flags.group(1).split()) if flags else set()
