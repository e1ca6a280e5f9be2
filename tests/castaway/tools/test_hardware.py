"""Devices as real ones report themselves, through a fake of torch; no GPU is needed."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from castaway.errors import CastawayError
from castaway.serving.vllm import accelerator
from castaway.tools import hardware
from castaway.tools.hardware import CPU, GIBIBYTE, Device, choose, classify, require, visible_devices

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


# A whole host, as torch describes it ----------------------------------------------------------------------------------


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
