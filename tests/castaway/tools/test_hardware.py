"""Devices as real ones report themselves, through fakes of torch and of AMD SMI; no GPU is needed."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from castaway.errors import CastawayError
from castaway.serving.vllm import accelerator
from castaway.tools import hardware
from castaway.tools.hardware import CPU, GIBIBYTE, Device, choose, classify, driver, require, visible_devices

HIP = "7.2.53211"


def amd(architecture: str, units: int, memory: int, name: str = "AMD Instinct") -> SimpleNamespace:
    return SimpleNamespace(name=name, gcnArchName=architecture, multi_processor_count=units, total_memory=memory)


MI300X = amd("gfx942:sramecc+:xnack-", 304, 196592 * 1024**2, "AMD Instinct MI300X")
NAMELESS = amd("gfx942:sramecc+:xnack-", 304, 196592 * 1024**2, "AMD Radeon Graphics")
PARTITION = amd("gfx942:sramecc+:xnack-", 38, 24 * GIBIBYTE)
MI325X = amd("gfx942:sramecc+:xnack-", 304, 256 * GIBIBYTE, "AMD Instinct MI325X")
MI300A = amd("gfx942:sramecc+:xnack-", 228, 128 * GIBIBYTE)
MI308X = amd("gfx942:sramecc+:xnack-", 80, 192 * GIBIBYTE)
MI250X = amd("gfx90a:sramecc+:xnack-", 110, 64 * GIBIBYTE)
H100 = SimpleNamespace(name="NVIDIA H100", major=9, minor=0, multi_processor_count=132, total_memory=80 * GIBIBYTE)


@pytest.mark.parametrize(
    ("properties", "hip", "kind", "architecture"),
    [
        (MI300X, HIP, "mi300x", "gfx942"),
        (NAMELESS, HIP, "mi300x", "gfx942"),
        (PARTITION, HIP, "mi300x", "gfx942"),
        (MI325X, HIP, "mi325x", "gfx942"),
        (MI300A, HIP, "gfx942", "gfx942"),
        (MI308X, HIP, "gfx942", "gfx942"),
        (MI250X, HIP, "rocm", "gfx90a"),
        (H100, None, "cuda", "sm_90"),
    ],
)
def test_a_device_is_known_by_its_chip(
    properties: SimpleNamespace, hip: str | None, kind: str, architecture: str
) -> None:
    device = classify(properties, hip)
    assert (device.kind, device.architecture) == (kind, architecture)
    assert device.memory == properties.total_memory


def test_a_stage_gets_the_device_that_it_is_pinned_to() -> None:
    device = classify(MI300X, HIP)
    assert choose("mi300x", "ppo@marooned", [device]) is device


def test_the_cpu_is_everywhere() -> None:
    assert require("cpu", "dataset@marooned") is CPU


@pytest.mark.parametrize(
    ("kind", "devices", "found"),
    [
        ("mi300x", [], "torch sees no GPU"),
        ("mi300x", [classify(H100, None)], "the first GPU is NVIDIA H100 (cuda, sm_90, 80 GiB)"),
        ("mi300x", [classify(MI325X, HIP)], "mi325x"),
        ("cuda", [classify(MI300X, HIP)], "mi300x"),
        # torch uses the first one: a second would be of no help.
        ("mi300x", [classify(H100, None), classify(MI300X, HIP)], "NVIDIA H100"),
    ],
)
def test_a_host_without_the_device_is_told_in_one_line(kind: str, devices: list[Device], found: str) -> None:
    with pytest.raises(CastawayError) as caught:
        choose(kind, "ppo@marooned", devices)
    assert str(caught.value).startswith(f"ppo@marooned is pinned to {kind} but ")
    assert found in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_pin_is_refused() -> None:
    with pytest.raises(CastawayError, match="pins ppo@marooned to 'tpu', expected one of cpu, cuda, mi300x"):
        choose("tpu", "ppo@marooned", [])


def test_a_run_remembers_its_device() -> None:
    assert classify(MI300X, HIP).facts() == {
        "device.kind": "mi300x",
        "device.name": "AMD Instinct MI300X",
        "device.architecture": "gfx942",
        "device.memory_gib": "192.0",
        "device.compute_units": "304",
    }


# A whole host, as torch and AMD SMI describe it -----------------------------------------------------------------------


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes torch report these GPUs, as its build for ROCm does if `hip` is given."""

    def make(*gpus: SimpleNamespace, hip: str | None = None) -> None:
        monkeypatch.setattr(torch.version, "hip", hip)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(gpus))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(gpus))
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: gpus[index])

    return make


def test_all_gpus_of_a_host_are_seen_in_their_order(host: Callable[..., None]) -> None:
    host(MI300X, PARTITION, MI325X, hip=HIP)
    assert [device.kind for device in visible_devices()] == ["mi300x", "mi300x", "mi325x"]
    assert require("mi300x", "ppo@marooned").memory == MI300X.total_memory
    assert accelerator() == "rocm"


def test_a_stage_for_an_mi300x_stops_on_every_other_host(host: Callable[..., None]) -> None:
    for gpus, hip in [((), None), ((), HIP), ((H100,), None), ((MI250X,), HIP), ((MI300A, MI300X), HIP)]:
        host(*gpus, hip=hip)
        with pytest.raises(CastawayError, match=r"^ppo@marooned is pinned to mi300x but "):
            require("mi300x", "ppo@marooned")
    host(hip=HIP)
    assert visible_devices() == [] and accelerator() == "rocm"
    host(H100)
    assert require("cuda", "ppo@marooned").architecture == "sm_90" and accelerator() == "cuda"
    host()
    assert accelerator() == "cpu"


def test_a_device_says_what_it_is(host: Callable[..., None]) -> None:
    host(NAMELESS, hip=HIP)
    assert str(visible_devices()[0]) == "AMD Radeon Graphics (mi300x, gfx942, 192 GiB)"
    assert str(require("cpu", "dataset@marooned")) == "CPU"


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
    monkeypatch.setattr(hardware, "NVIDIA_DRIVER", tmp_path / "nvidia" / "version")
    monkeypatch.setattr(hardware, "AMD_DRIVER", tmp_path / "amdgpu")
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
