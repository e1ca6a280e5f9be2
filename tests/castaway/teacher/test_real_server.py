"""The served teacher against `transformers serve` with continuous batching, and a model that knows nothing.

It has no structured outputs and its model talks nonsense, so what is shown is that real HTTP, real queues and
real kills are borne, and that nonsense never becomes a verdict.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
import torch

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.models.tiny import new_model, train_tokenizer
from castaway.teacher.base import Attempt, TeacherOutage
from castaway.teacher.chat_client import Endpoint
from castaway.teacher.inspection import distinct_attempts
from castaway.teacher.question import question
from castaway.teacher.rules import RulesTeacher
from castaway.teacher.served import Conduct, ServedTeacher
from tests.castaway.rl.small import small_base

READY_SECONDS = 120.0
ENVIRONMENT = MaroonedEnvironment("skiff", "compact")
RULES = ENVIRONMENT.rules


class Server:
    """`transformers serve`, which can be killed and started again at the same address."""

    def __init__(self, model: Path, home: Path) -> None:
        self.model, self._home = str(model), home
        (home / "hub").mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        batching = ["--continuous-batching", "--cb-num-blocks", "512", "--cb-max-batch-tokens", "512"]
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--device", "cpu", "--dtype", "float32"]
        command = [str(Path(sys.executable).parent / "transformers"), "serve", self.model]
        self._process = subprocess.Popen(
            [*command, *place, *batching, "--attn-implementation", "sdpa"],
            env={**os.environ, "HF_HOME": str(self._home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        patience, end = threading.Event(), monotonic() + READY_SECONDS
        while not self._listens():
            assert self._process.poll() is None, "the server ended before it was ready"
            assert monotonic() < end, "the server is not ready"
            patience.wait(0.1)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server of an untrained model."""
    folder = tmp_path_factory.mktemp("teacher")
    texts = [message["content"] for one in attempts(4) for message in question("marooned", RULES, one)]
    tokenizer = train_tokenizer(texts, 1024)
    torch.manual_seed(0)
    new_model(small_base(), tokenizer).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    running = Server(folder / "model", folder / "home")
    yield running
    running.kill()


def attempts(count: int) -> list[Attempt]:
    return distinct_attempts(ENVIRONMENT, count)


def teacher_of(server: Server, on_outage: str, deadline: float = 60.0) -> ServedTeacher:
    endpoint = Endpoint(server.url, server.model, answer_tokens=8, deadline_seconds=deadline)
    return ServedTeacher("marooned", RULES, endpoint, Conduct(on_outage=on_outage))  # type: ignore[arg-type]


@pytest.mark.slow
def test_sixty_four_questions_at_once_are_answered_and_nonsense_is_no_verdict(server: Server) -> None:
    teacher, asked = teacher_of(server, "pause"), attempts(64)
    assert teacher.judge(asked) == RulesTeacher(RULES).judge(asked)
    assert teacher.counts["tries"] == 128 and teacher.counts["unusable"] == 64
    teacher.close()


@pytest.mark.slow
def test_a_server_that_is_killed_and_started_again_is_waited_for(server: Server) -> None:
    teacher, asked = teacher_of(server, "pause"), attempts(48)
    strike = threading.Timer(0.3, lambda: (server.kill(), server.start()))
    strike.start()
    assert teacher.judge(asked) == RulesTeacher(RULES).judge(asked)
    strike.join()
    assert teacher.counts["unusable"] == 48
    assert teacher.counts["tries"] > 96, "the kill came too late to be noticed"
    teacher.close()


@pytest.mark.slow
def test_a_server_that_stays_dead_ends_in_a_pause_or_in_the_rules_before_the_deadline(server: Server) -> None:
    server.kill()
    try:
        began = monotonic()
        paused, going_on = teacher_of(server, "pause", 2.0), teacher_of(server, "rules", 2.0)
        # The last try before the deadline may be cut off by it, on a busy machine, before it is refused.
        with pytest.raises(TeacherOutage, match=r"takes no connections|did not answer before the deadline"):
            paused.judge(attempts(64))
        assert going_on.judge(attempts(64)) == RulesTeacher(RULES).judge(attempts(64))
        assert going_on.counts["outages"] == 64
        assert monotonic() - began < 60, "it was waited for"
        paused.close()
        going_on.close()
    finally:
        server.start()
