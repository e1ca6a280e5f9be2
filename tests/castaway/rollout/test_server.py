"""A server is started, waited for and ended with all its processes; what it is told depends on the accelerator."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from castaway.config.errors import CastawayError
from castaway.rollout.server import running
from castaway.rollout.vllm import (
    Adapter,
    Kind,
    Memory,
    Serving,
    advice,
    build_of,
    command_line,
    find_vllm,
    read_adapter,
    variables,
)
from tests.castaway.rollout.fake_vllm import install

PYTHON = Path("/there/bin/python")


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    """A server that is not vLLM, in an environment that looks as if it were."""
    return Serving("good", port=0, environment=install(tmp_path / "e"), log=tmp_path / "logs" / "log", ready_seconds=30)


def group_of(leader: int) -> list[str]:
    """The processes of a group that are more than a zombie."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [row[-1] for row in rows if int(row[0]) == leader and not row[1].startswith("Z")]


def pairs(command: list[str]) -> set[tuple[str, str]]:
    return set(pairwise(command))


@pytest.mark.parametrize("kind", ["cpu", "cuda", "rocm"])
def test_every_kind_is_told_what_to_serve_and_where(kind: Kind) -> None:
    command = command_line(kind, PYTHON, Serving("weights", "judge", "abc", context=512, cache_gibibytes=3, port=81))
    told = {("--model", "weights"), ("--served-model-name", "judge"), ("--revision", "abc"), ("--port", "81")}
    told |= {("--host", "127.0.0.1"), ("--max-model-len", "512"), ("--kv-cache-memory-bytes", str(3 * 1024**3))}
    assert told <= pairs(command)
    limits = json.loads(command[command.index("--structured-outputs-config") + 1])
    assert limits == {"backend": "guidance", "disable_any_whitespace": True}
    assert ("--enforce-eager" in command) == (kind == "cpu") and "--enable-lora" not in command
    plain = command_line(kind, PYTHON, Serving("weights"))
    unasked = {"--dtype", "--kv-cache-memory-bytes", "--revision", "--max-model-len"} & set(plain)
    assert unasked == ({"--dtype", "--kv-cache-memory-bytes"} if kind == "cpu" else set())


GIB = 1024**3


def test_several_gpus_hold_a_copy_together_or_copies(tmp_path: Path) -> None:
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(16 * GIB)
    serving = Serving(str(tmp_path), cache_gibibytes=8, tensor_parallel=2, data_parallel=4)
    command = command_line("rocm", PYTHON, serving, Memory(80 * GIB, 80 * GIB))
    told = {("--tensor-parallel-size", "2"), ("--data-parallel-size", "4")}
    # Of each: half of the weights, the cache and 2 GiB for work.
    assert told | {("--gpu-memory-utilization", f"{18 / 80:.4f}")} <= pairs(command)
    alone = command_line("rocm", PYTHON, replace(serving, tensor_parallel=1, data_parallel=1))
    assert not any("parallel" in word for word in alone)


@pytest.mark.parametrize(
    ("free", "total", "cache", "share"),
    [
        (159, 192, 16, "0.1771"),  # an MI300X with a teacher of 33 GB; 16 GiB of weights, 2 for work
        (47, 80, 8, "0.3250"),
        (80, 80, None, None),
        (47, 80, None, "0.5775"),  # it takes what is free
    ],
)
def test_a_server_asks_for_what_it_needs_and_not_for_most_of_a_gpu(
    free: int, total: int, cache: int | None, share: str | None, tmp_path: Path
) -> None:
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(16 * GIB)  # a file of holes
    serving, memory = Serving(str(tmp_path), cache_gibibytes=cache), Memory(free * GIB, total * GIB)
    command = command_line("rocm", PYTHON, serving, memory)
    assert share is None or ("--gpu-memory-utilization", share) in pairs(command)
    assert (share is None) == ("--gpu-memory-utilization" not in command)
    if cache:
        with pytest.raises(CastawayError, match=r"GiB of the GPU \(16 for weights, .* and 20 are free"):
            command_line("rocm", PYTHON, serving, Memory(20 * GIB, total * GIB))


def test_adapters_get_the_smallest_rank_that_vllm_knows_and_that_holds_them_all() -> None:
    adapters = (Adapter("a", Path("x"), 4), Adapter("b", Path("y"), 24))
    command = command_line("rocm", PYTHON, Serving("weights", adapters=adapters))
    told = {("--max-lora-rank", "32"), ("--max-loras", "2"), ("--lora-modules", "a=x"), ("a=x", "b=y")}
    assert told <= pairs(command)


@pytest.mark.parametrize(
    ("text", "config", "complaint"),
    [
        ("adapter", None, "not of the form NAME=PATH"),
        ("=adapter", None, "not of the form NAME=PATH"),
        ("a=adapter", None, "cannot be read or names no rank"),
        ("a=adapter", "[]", "cannot be read or names no rank"),
        ("a=adapter", '{"r": 1024}', "r is 1024, and vLLM takes 1 to 512"),
    ],
)
def test_what_is_no_adapter_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, config: str | None, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if config is not None:
        Path("adapter").mkdir()
        Path("adapter/adapter_config.json").write_text(config)
    with pytest.raises(CastawayError, match=complaint):
        read_adapter(text)


def test_a_child_inherits_neither_our_packages_nor_a_key_that_we_did_not_give() -> None:
    ours = {"PYTHONPATH": "x", "VLLM_API_KEY": "old", "CASTAWAY_TEACHER_KEY": "new", "PATH": "/bin", "HOME": "/h"}
    ours |= {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "1", "TORCHELASTIC_USE_AGENT_STORE": "True"}  # torchrun's
    found = variables("cpu", PYTHON, Serving("organisation/model"), "", ours)
    assert found == {"PATH": "/there/bin:/bin", "HOME": "/h", "DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}
    more = {"HF_HUB_OFFLINE": "1", "VLLM_API_KEY": "new"}
    assert variables("cuda", PYTHON, Serving("/"), "new", ours) == {**found, **more}
    amd = variables("rocm", PYTHON, Serving("m"), "", {**ours, "VLLM_ROCM_USE_AITER": "0"})
    assert amd["VLLM_ROCM_USE_AITER"] == "0" and amd["HIP_FORCE_DEV_KERNARG"] == "1"


def test_without_vllm_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    builds = {"cpu": "0.32.0+cpu", "cuda": "0.32.0+cu130", "rocm": "0.31.0+rocm723"}
    packages = {"cpu": "-r constraints-vllm.txt", "cuda": "vllm==0.32.0", "rocm": "vllm==0.31.0+rocm"}
    for kind, version in builds.items():
        assert build_of("vllm", version) == kind and packages[kind] in advice(build_of("vllm", version), Path("there"))
    with pytest.raises(CastawayError, match="there is no vLLM in"):
        find_vllm(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(CastawayError, match="there is no vLLM in"):
        find_vllm(tmp_path)


def test_a_server_runs_with_its_key_and_leaves_nobody_behind(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("castaway.rollout.server.GRACE", 5.0)
    with running(serving, key="secret") as server:
        assert server.url == f"http://127.0.0.1:{server.serving.port}/v1" and server.serving.port
        assert len(group_of(server.process.pid)) == 2
        started: dict[str, Any] = json.loads(serving.log.read_text())
        with pytest.raises(CastawayError, match=r"port \d+ of 127.0.0.1 cannot be used \(Address already in use\)"):
            running(replace(serving, port=server.serving.port)).__enter__()
    assert "secret" not in started["arguments"] and started["environment"]["VLLM_API_KEY"] == "secret"
    assert group_of(server.process.pid) == []
    with running(replace(serving, port=server.serving.port)) as again:
        assert again.serving.port == server.serving.port


def test_a_server_that_was_killed_is_missed_and_its_children_are_ended(serving: Serving) -> None:
    with (
        pytest.raises(CastawayError, match="vLLM was killed by signal 9 while it was serving"),
        running(serving) as server,
    ):
        os.kill(server.process.pid, signal.SIGKILL)
        server.watch(lambda: False)
    assert group_of(server.process.pid) == []


def test_a_server_that_dies_is_quoted(serving: Serving) -> None:
    said = r"ended with status 3 before it was ready; .*says: RuntimeError: no such weights$"
    with pytest.raises(CastawayError, match=said):
        running(replace(serving, weights="dying")).__enter__()


def test_a_server_that_does_not_get_well_is_ended_at_its_deadline(serving: Serving) -> None:
    began = monotonic()
    with pytest.raises(CastawayError, match="vLLM is not ready after 2 seconds"):
        running(replace(serving, weights="sick", ready_seconds=2)).__enter__()
    assert monotonic() - began < 15


def test_others_are_served_with_a_key_only(serving: Serving) -> None:
    with pytest.raises(CastawayError, match="set CASTAWAY_TEACHER_KEY"):
        running(replace(serving, host="0.0.0.0")).__enter__()
