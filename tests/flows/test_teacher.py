"""The driver serves the teacher for the stages that ask it, and for no others."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import httpx
import pytest

from castaway.config.sections import TeacherParams
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from flows.teacher import serving_for, what_to_serve
from tests.miniature import ROOT, make_clone

FAKE = ROOT / "tests/castaway/serving/fake_vllm.py"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def teacher(**changes: object) -> TeacherParams:
    chosen = read_params(ROOT / "params.yaml").teacher
    return TeacherParams.model_validate({**chosen.model_dump(), "kind": "openai", **changes})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose stages were never run, and an environment that looks as if vLLM were in it."""
    make_clone(tmp_path)
    python = tmp_path / ".venv-vllm/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    python.chmod(0o755)
    return tmp_path


def healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def test_it_is_there_while_a_stage_asks_it(root: Path) -> None:
    port = free_port()
    params = teacher(url=f"http://127.0.0.1:{port}/v1")
    with serving_for(root, "sft@marooned", "good", params):
        assert not healthy(port)
    with serving_for(root, "ppo@marooned", "good", params):
        assert healthy(port)
    assert not healthy(port)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kind": "rules"}, "teacher.kind is rules, which needs no server"),
        ({"url": "http://far.example:8000/v1"}, "is not this host; start the server there by hand"),
        ({"url": "https://127.0.0.1:8000/v1"}, "is not this host"),
    ],
)
def test_what_cannot_be_served_here_is_told_before_anything_starts(changes: dict[str, str], sentence: str) -> None:
    with pytest.raises(CastawayError, match=sentence):
        what_to_serve(ROOT, "good", teacher(**changes))
