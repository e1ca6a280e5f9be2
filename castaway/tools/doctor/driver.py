"""The driver for GPUs on this host, as it says itself."""

from __future__ import annotations

import re
from pathlib import Path

NVIDIA = Path("/proc/driver/nvidia/version")
"""Exists where NVIDIA's driver is loaded."""
AMD = Path("/sys/module/amdgpu")
"""Exists where AMD's driver is loaded."""


def driver() -> str:
    """Its name and version; empty if there is none."""
    if NVIDIA.exists():
        return f"nvidia {_number(NVIDIA)}".strip()
    return _told_by_amdsmi() or (f"amdgpu {_number(AMD / 'version')}".strip() if AMD.exists() else "")


def _number(path: Path) -> str:
    """The first version number in a file; empty if there is none, as in the driver that comes with the kernel."""
    try:
        found = re.search(r"\d+(\.\d+)+", path.read_text("utf-8"))
    except OSError:
        return ""
    return found.group() if found else ""


def _told_by_amdsmi() -> str:
    """The driver as AMD's own library says it, which ROCm brings along; empty if it cannot say."""
    try:
        import amdsmi

        amdsmi.amdsmi_init()
    except Exception:  # it is not installed, its shared library is missing, or there is no driver
        return ""
    try:
        found = amdsmi.amdsmi_get_gpu_driver_info(amdsmi.amdsmi_get_processor_handles()[0])
        return f"{found['driver_name']} {found['driver_version']}"
    except (amdsmi.AmdSmiException, IndexError):  # the driver does not answer, or knows no GPU
        return ""
    finally:
        amdsmi.amdsmi_shut_down()
