"""The driver as the kernel and a fake of AMD SMI tell of it; no GPU is needed."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from castaway.tools.doctor import driver as module
from castaway.tools.doctor.driver import driver


class Smi(ModuleType):
    """AMD SMI for Python as ROCm 7.2 has it: functions, its own exception, and a library that has to be closed."""

    class AmdSmiException(Exception):
        """Any of its errors."""

    def __init__(self, gpus: int = 1, loaded: bool = True, answers: bool = True) -> None:
        super().__init__("amdsmi")
        self.gpus, self.loaded, self.answers, self.opened = gpus, loaded, answers, 0

    def amdsmi_init(self) -> None:
        if not self.loaded:
            raise self.AmdSmiException("34: AMDSMI_STATUS_DRIVER_NOT_LOADED")
        self.opened += 1

    def amdsmi_get_processor_handles(self) -> list[object]:
        return [object()] * self.gpus

    def amdsmi_get_gpu_driver_info(self, handle: object) -> dict[str, Any]:
        if not self.answers:
            raise self.AmdSmiException("31: AMDSMI_STATUS_BUSY")
        return {"driver_name": "amdgpu", "driver_version": "6.16.13", "driver_date": "2015/01/01 00:00"}

    def amdsmi_shut_down(self) -> None:
        self.opened -= 1


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host on which neither driver is loaded, and AMD SMI is not installed."""
    monkeypatch.setattr(module, "NVIDIA", tmp_path / "nvidia" / "version")
    monkeypatch.setattr(module, "AMD", tmp_path / "amdgpu")
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    return tmp_path


@pytest.mark.parametrize(
    ("smi", "told"),
    [
        (Smi(), "amdgpu 6.16.13"),
        (Smi(gpus=8), "amdgpu 6.16.13"),
        (Smi(gpus=0), "amdgpu 6.14.14"),
        (Smi(answers=False), "amdgpu 6.14.14"),
        (Smi(loaded=False), "amdgpu 6.14.14"),
        (None, "amdgpu 6.14.14"),
    ],
)
def test_amd_smi_is_asked_first_and_closed_again(
    files: Path, monkeypatch: pytest.MonkeyPatch, smi: Smi | None, told: str
) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", smi)
    (files / "amdgpu").mkdir()
    (files / "amdgpu" / "version").write_text("6.14.14\n")
    assert driver() == told
    assert smi is None or smi.opened == 0


def test_a_driver_of_the_kernel_has_no_version_and_a_host_may_have_none(files: Path) -> None:
    assert driver() == ""
    (files / "amdgpu").mkdir()
    assert driver() == "amdgpu"
    (files / "amdgpu" / "version").write_text("unknown\n")
    assert driver() == "amdgpu"


@pytest.mark.parametrize(
    "line",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.105.08  Wed Oct 29 23:15:11 2025\nGCC version: 12.2.0\n",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build  (root)\n",
    ],
)
def test_nvidias_driver_is_read_from_the_kernel(files: Path, line: str) -> None:
    (files / "nvidia").mkdir()
    (files / "nvidia" / "version").write_text(line)
    assert driver() == "nvidia 580.105.08"
