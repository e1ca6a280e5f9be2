"""The teacher's server is killed while PPO asks it: the stage pauses, and goes on to what it would have come to."""

import json
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.miniature import ROOT, environment, make_ppo_clone, ppo_digest, run, set_params

pytestmark = pytest.mark.slow

DEADLINE = 300.0


class Judge:
    """A good teacher behind a server that can be killed, and comes back under the same address."""

    def __init__(self) -> None:
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.castaway.teacher.fault_server", str(self.port)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.port = int(self._process.stdout.readline())

    def asked(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/asked", timeout=10) as response:
            found: list[dict[str, Any]] = json.load(response)
        return found

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def judge() -> Iterator[Judge]:
    made = Judge()
    yield made
    made.kill()


@pytest.fixture
def root(tmp_path: Path, judge: Judge, shared_cache: Path) -> Path:
    """The pipeline in miniature, built up to PPO, which is to ask the model about every move."""
    make_ppo_clone(tmp_path, shared_cache, steps=3, checkpoint_interval=2)
    teacher = {"kind": "openai", "url": judge.url, "model": "good", "cascade": False, "on_outage": "pause"}
    seconds = {"attempt_seconds": 5.0, "deadline_seconds": 5.0, "patience_seconds": 1.0}
    set_params(tmp_path, {f"teacher.{key}": value for key, value in {**teacher, **seconds}.items()})
    return tmp_path


def test_a_server_that_is_killed_in_the_middle_changes_nothing_that_is_built(root: Path, judge: Judge) -> None:
    run(root, "dvc", "repro", "ppo@marooned")
    whole = ppo_digest(root)
    questions = len(judge.asked())
    report = json.loads((root / "data/marooned/ppo/agreement.json").read_text("utf-8"))
    assert report["judged_by"]["good"] > 0
    with closing(sqlite3.connect(root / "mlflow.db")) as store:
        curve = store.execute("SELECT step, value FROM metrics WHERE key = 'teacher/unusable_share'").fetchall()
    assert sorted(curve) == [(1, 0.0), (2, 0.0), (3, 0.0)]
    # The answers that were kept would spare it the server.
    (root / "scratch/verdicts.sqlite").unlink()

    command = ["dvc", "repro", "--force", "--single-item", "ppo@marooned"]
    output = root / "paused.txt"
    with output.open("w") as file:
        paused = subprocess.Popen(command, cwd=root, env=environment(), stdout=file, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + DEADLINE
        # In the last of the three steps, after the only checkpoint that is written of itself.
        while len(judge.asked()) < 1.8 * questions:
            assert paused.poll() is None and time.monotonic() < deadline, output.read_text("utf-8")[-3000:]
            time.sleep(0.01)
        judge.kill()
        assert paused.wait(DEADLINE) != 0
    assert "run the stage again, which goes on where it stopped" in output.read_text("utf-8")
    assert list((root / "scratch/marooned/ppo").rglob("step-*.pt"))

    judge.start()
    # By force: DVC has the result of the undisturbed run in its cache.
    run(root, *command)
    assert ppo_digest(root) == whole
    assert 0 < len(judge.asked()) < 0.5 * questions
