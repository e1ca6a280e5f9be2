"""A PPO stage that is killed at any moment, and started again, leaves the bytes of one that never was."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.miniature import environment, make_ppo_clone, ppo_digest

pytestmark = pytest.mark.slow
STAGE = "ppo@marooned"
KILLS = 4

WARM = """
import os, sys
import datasets, dvc.repo, dvc.stage.serialize, mlflow, peft, torch, transformers
import flows.stage, castaway.tracking.stage_run, stages.ppo
for line in sys.stdin:
    child = os.fork()
    if not child:
        status = 1
        try:
            flows.stage.main(line.strip())
            status = 0
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(status)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""
"""Every line that it reads is a stage, run in a process of its own; the imports, which take most of the time, are done
once. It prints the number of the process, and then how it ended."""


class Stages:
    """Starts a stage as often as it is asked to, and kills it."""

    def __init__(self, root: Path) -> None:
        self._errors = (root / "errors.txt").open("w+")
        self._warm = subprocess.Popen(
            [sys.executable, "-c", WARM],
            cwd=root,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
        )

    def run(self, kill_after: float | None = None, once_in: Path | None = None) -> bool:
        """Run the stage, and kill it, these seconds after a checkpoint is in the folder; whether it ended before."""
        assert self._warm.stdin and self._warm.stdout
        self._warm.stdin.write(f"{STAGE}\n")
        child = int(self._warm.stdout.readline())
        ended = threading.Event()

        def kill() -> None:
            while once_in and not any(once_in.rglob("step-*.pt")) and not ended.wait(0.01):
                pass
            if not ended.wait(kill_after):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

        if kill_after is not None:
            threading.Thread(target=kill, daemon=True).start()
        status = int(self._warm.stdout.readline())
        ended.set()
        self._errors.seek(0)
        assert status in (0, signal.SIGKILL), self._errors.read()[-3000:]
        return status == 0

    def close(self) -> None:
        self._warm.kill()
        self._warm.wait()
        self._errors.close()


@pytest.fixture
def stages(tmp_path: Path, shared_cache: Path) -> Iterator[Stages]:
    make_ppo_clone(tmp_path, shared_cache, steps=6, **{"rollout.turns_per_step": 24})
    made = Stages(tmp_path)
    yield made
    made.close()


def test_a_killed_run_ends_in_the_bytes_of_one_that_was_not(tmp_path: Path, stages: Stages) -> None:
    began = time.monotonic()
    assert stages.run()
    seconds = time.monotonic() - began
    whole = ppo_digest(tmp_path)
    assert len(whole) >= 6
    random, killed, resumed, scratch = Random(20), 0, 0, tmp_path / "scratch"
    while killed < KILLS:
        # Every second one is killed after a checkpoint: how long the start takes is the machine's affair.
        late = killed % 2 == 0
        moment = random.uniform(0.0, seconds / 6 if late else seconds)
        if stages.run(moment, scratch if late else None):
            assert ppo_digest(tmp_path) == whole
        else:
            killed += 1
        resumed += any(scratch.rglob("step-*.pt"))
    assert stages.run()
    assert ppo_digest(tmp_path) == whole
    # Without a checkpoint to go on from nothing would have been shown.
    assert resumed >= KILLS // 4
