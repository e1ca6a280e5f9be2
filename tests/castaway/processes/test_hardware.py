"""Devices as real ones report themselves, through a fake of torch; no GPU is needed."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from castaway.config.errors import CastawayError
from castaway.processes import hardware
from castaway.processes.hardware import (
    GIBIBYTE,
    KINDS,
    Device,
    choose,
    classify,
    require,
    torch_name,
    visible_devices,
    visible_variables,
)
from castaway.rollout.vllm import accelerator
from flows.gpus import slot_name
from tests.castaway.command import refused
from tests.castaway.figures import save

HIP = "7.2.53211"


def amd(architecture: str, units: int, memory: int, name: str = "AMD Instinct") -> SimpleNamespace:
    return SimpleNamespace(name=name, gcnArchName=architecture, multi_processor_count=units, total_memory=memory)


MI300X = amd("gfx942:sramecc+:xnack-", 304, 196592 * 1024**2, "AMD Instinct MI300X")
NAMELESS = amd("gfx942:sramecc+:xnack-", 304, 196592 * 1024**2, "AMD Radeon Graphics")
PARTITION = amd("gfx942:sramecc+:xnack-", 38, 24 * GIBIBYTE)
MI325X = amd("gfx942:sramecc+:xnack-", 304, 256 * GIBIBYTE, "AMD Instinct MI325X")
MI300A = amd("gfx942:sramecc+:xnack-", 228, 128 * GIBIBYTE)
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
    told = refused(choose, kind, "ppo@marooned", devices)
    assert told.startswith(f"ppo@marooned is pinned to {kind} but ") and found in told
    with pytest.raises(CastawayError, match="pins ppo@marooned to 'tpu', expected one of cpu, cuda, mi300x"):
        choose("tpu", "ppo@marooned", devices)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes torch report these GPUs, as its build for ROCm does if `hip` is given."""

    # Where the kernel is asked for GPUs before torch is.
    monkeypatch.setattr(hardware, "NODES", ["/"], raising=False)

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


@pytest.mark.parametrize("own", ["/", "/pod/container", "/../../another"])
def test_a_container_has_the_smaller_of_its_limits_and_the_hosts(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def group(place: str, **files: str) -> None:
        for name, text in files.items():
            save(tmp_path / "groups" / place / name.replace("_", "."), f"{text}\n")

    save(tmp_path / "own", f"0::{own}\n")
    monkeypatch.setattr(hardware, "CONTROL_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(hardware, "OWN_GROUP", tmp_path / "own")
    host = len(os.sched_getaffinity(0))
    assert hardware.cores() == host and hardware.host_memory() == psutil.virtual_memory().total
    group(".", cpu_max="max 100000", memory_max="max")
    group("pod", cpu_max="150000 100000", memory_max=str(3 << 20))
    group("pod", memory_current=str(2 << 20), memory_stat=f"anon 5\ninactive_file {1 << 20}")
    group("pod/container", cpu_max=f"{host + 1}00000 100000")
    limited = own == "/pod/container"
    assert hardware.cores() == (1 if limited else host)
    assert (hardware.host_memory() == 3 << 20) == limited == (hardware.free_gibibytes() == 2 / 1024)


def test_the_accelerator_is_that_of_the_build_of_torch(host: Callable[..., None]) -> None:
    host(hip=HIP)
    assert visible_devices() == [] and accelerator() == "rocm"
    host(H100)
    assert require("cuda", "ppo@marooned").architecture == "sm_90" and accelerator() == "cuda"
    host()
    assert accelerator() == "cpu" and str(require("cpu", "dataset@marooned")) == "CPU"


def test_the_gpu_of_a_mac_is_a_kind_of_its_own(host: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    host()
    monkeypatch.setattr(hardware.sys, "platform", "darwin")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 24 * GIBIBYTE)
    device = require("mps", "ppo@strictbot")
    assert device.memory == 24 * GIBIBYTE and "Apple GPU (mps, " in str(device)
    assert "pinned to cuda but the first GPU is Apple GPU" in refused(require, "cuda", "ppo@strictbot")
    # It needs no variable to be seen, and there is one of it.
    assert visible_variables("mps", [0]) == {} and slot_name("mps", 0).endswith("-mps-0")
    assert [torch_name(kind) for kind in KINDS] == ["cpu", "cuda", "cuda", "mps"]
