"""The device, the cores and the memory: this host's own, and others' as their drivers describe them."""

import os
from pathlib import Path

import psutil
import pytest

from castaway.tasks.registry import read_params
from castaway.tools.doctor import cores as module
from castaway.tools.doctor import device as device_module
from castaway.tools.doctor.cores import cores, processor
from castaway.tools.doctor.device import device, seen
from castaway.tools.doctor.fits import Fit, fit
from castaway.tools.doctor.memory import memory
from castaway.tools.doctor.probe import Probed
from castaway.tools.hardware import GIBIBYTE, Device

ROOT = Path(__file__).parents[4]
PARAMS = read_params(ROOT / "params.yaml")
MI300X = Device("mi300x", "AMD Instinct MI300X", "gfx942", 192 * GIBIBYTE, 304)
H100 = Device("cuda", "NVIDIA H100", "sm_90", 80 * GIBIBYTE, 132)


def test_torch_is_asked_in_a_process_of_its_own() -> None:
    (found,) = device("cpu")
    assert found.state == "ok" and found.found.startswith("CPU; torch 2.")


def test_a_torch_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "PROBE_SECONDS", 0.01)
    (found,) = device("cpu")
    assert found.state == "failed" and "took longer than 0.01 seconds" in found.found


@pytest.mark.parametrize(
    ("kind", "probed", "told", "remedy"),
    [
        ("mi300x", Probed("2.13.0+git733fca1", "amdgpu 6.16.13", [MI300X]), "AMD Instinct MI300X (mi300x, ", ""),
        ("cuda", Probed("2.13.0+cu130", "nvidia 580.105.08", [H100]), "NVIDIA H100 (cuda, sm_90, 80 GiB); torch ", ""),
        ("cuda", Probed("2.13.0+cpu", "", []), "torch sees no GPU on this host", "run it on a host that has one, or "),
        ("mi300x", Probed("2.13.0+cu130", "nvidia 580.105.08", [H100]), "the first GPU is NVIDIA H100", "run it on "),
        ("cuda", Probed("2.13.0+cpu", "nvidia 580.105.08", []), "torch sees no GPU", "remove torch from .venv and run"),
    ],
)
def test_a_device_is_there_or_it_is_said_what_to_do(kind: str, probed: Probed, told: str, remedy: str) -> None:
    found = seen(kind, probed)
    assert found.state == ("failed" if remedy else "ok")
    assert told in found.found and found.remedy.startswith(remedy)


def test_an_amd_gpu_that_torch_does_not_see_lacks_permission_or_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = Probed("2.13.0+cpu", "amdgpu", [])
    monkeypatch.setattr(device_module, "AMD_DEVICE", tmp_path / "kfd")
    assert "groups video and render" in seen("mi300x", hidden).remedy
    (tmp_path / "kfd").touch()
    assert "install AMD's build of torch" in seen("mi300x", hidden).remedy


def test_there_is_a_core_for_each_thread() -> None:
    count = len(os.sched_getaffinity(0))
    name, flags = processor()
    assert name != "unknown processor"
    few = PARAMS.model_copy(update={"threads": count})
    assert cores(few)[0].state == ("ok" if "avx2" in flags else "warning")
    (found,) = cores(PARAMS.model_copy(update={"threads": count + 1}))
    assert found.state == "warning" and f"{count + 1} threads in each of 1 processes" in found.found


def test_an_old_processor_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text("model name\t: Old One\nflags\t\t: fpu sse2\n")
    monkeypatch.setattr(module, "PROCESSOR", tmp_path / "cpuinfo")
    (found,) = cores(PARAMS.model_copy(update={"threads": 1}))
    assert found.state == "warning" and "Old One" in found.found and "without AVX2" in found.found
    monkeypatch.setattr(module, "PROCESSOR", tmp_path / "none")
    assert cores(PARAMS.model_copy(update={"threads": 1}))[0].state == "ok"


def test_memory_is_compared_with_the_largest_stage() -> None:
    free = psutil.virtual_memory().available
    assert memory(Fit("params", True, "", "ppo@marooned", 1e6)).state == "ok"
    assert memory(Fit("params", True, "", "ppo@marooned", 4.0 * free)).state == "warning"
    found = memory(Fit("params", False, "does not fit: ppo@marooned needs much; lower it", "ppo@marooned", 1e15))
    assert (found.state, found.found, found.remedy) == (
        "failed",
        "does not fit: ppo@marooned needs much",
        "lower it",
    )
    assert memory(Fit("params", False, "needs a GPU of the kind cuda")).state == "ok"


def test_a_profile_for_another_device_is_not_estimated() -> None:
    path = ROOT / "profiles" / "llama3.1-8b.yaml"
    assert fit(path, ROOT, []).why_not == fit(path, ROOT, [H100]).why_not == "needs a GPU of the kind mi300x"


def test_a_profile_that_is_invalid_or_of_unknown_size_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("seed: 1\n")
    assert fit(tmp_path / "wrong.yaml", ROOT, []).why_not.startswith("wrong.yaml: ")
    text = (ROOT / "profiles" / "qwen2.5-0.5b.yaml").read_text().replace("Qwen/Qwen2.5-0.5B-Instruct", "some/model")
    (tmp_path / "mine.yaml").write_text(text)
    assert fit(tmp_path / "mine.yaml", tmp_path, [H100]).why_not == "cannot be estimated before base@qwen is built"
