"""`castaway teacher serve` as a person types it, with the vLLM that is there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import httpx
import pytest

from castaway.config.key import KEY_VARIABLE
from tests.castaway.command import told
from tests.castaway.rl.small import ROOT
from tests.castaway.rollout.test_server import group_of
from tests.castaway.tools.cli.test_teacher import teacher

KEY = "a key that nobody is to see"


def serve(weights: Path, *options: str, **variables: str) -> subprocess.Popen[str]:
    arguments = ["teacher", "serve", str(weights), "--port", "0", *options]
    command = [sys.executable, "-m", "castaway.tools.cli.main", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path]), KEY_VARIABLE: KEY}
    environment |= variables
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def children(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [int(pid) for pid, of in map(str.split, listed.splitlines()) if int(of) == parent]


def test_it_becomes_healthy_answers_check_and_stops_with_nobody_left(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, temporary = tmp_path / "log", Path(tempfile.mkdtemp())  # a socket's path has at most 107 characters
    process = serve(weights, "--model", "judge", "--log", str(log), "--ready", "180", TMPDIR=str(temporary))
    guard = threading.Timer(240, process.kill)
    guard.start()
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"starting vLLM for cpu; its log is {log}\n"
        ready = process.stdout.readline()
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+/v1) serves judge; Ctrl-C stops it\n", ready)
        assert found, ready
        (leader,) = children(process.pid)
        assert len(group_of(leader)) >= 3, "the server, its engine and its worker"
        assert KEY not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert httpx.get(f"{found[1]}/models", trust_env=False).status_code == 401
        monkeypatch.setenv(KEY_VARIABLE, KEY)
        checked = teacher("check", "--url", found[1], "--model", "judge")
        assert "answers cannot be used" in told(checked), "its weights are random"
        assert "\n| DANCE " in checked.stdout and "rejected" not in checked.stdout
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0 and process.stdout.read() == "stopped\n"
        assert group_of(leader) == [] and KEY not in log.read_text()
        temporary.rmdir()  # nothing is left there
    finally:
        guard.cancel()
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def test_weights_that_vllm_cannot_read_end_in_one_line_that_quotes_it(weights: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no such model"}))
    process = serve(tmp_path, "--log", str(tmp_path / "log"), "--ready", "120")
    _, said = process.communicate(timeout=150)
    assert process.returncode == 2 and said.count("\n") == 1
    assert said.startswith("error: vLLM ended with status 1 before it was ready; the end of its log, ")
    assert "no such model" in said
