"""Real servers that refuse, hang, cut, lie and die: an episode that broke is played again, or the stage stops."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from castaway.config.errors import CastawayError
from castaway.tools.checker import check_environment

from castaway_openenv.environment import PASS
from castaway_openenv.params import OpenEnvParams
from castaway_openenv.task import OpenEnv

SERVER = Path(__file__).with_name("guessing_server.py")


@contextmanager
def serving(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server in a process of its own."""
    process = subprocess.Popen([sys.executable, str(SERVER), *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.wait()


def game(url: str, **changes: Any) -> OpenEnvParams:
    settings: dict[str, Any] = {
        "instructions": "Guess the number.", "action": "number", "legal": "numbers", "turns": 12, "success": 0.5,
        "attempt_seconds": 1.0, "deadline_seconds": 20.0, **changes,
    }  # fmt: skip
    return OpenEnvParams(url=url, **settings)


def played(task: OpenEnv, seed: int, before_step: dict[int, Any] | None = None) -> list[Any]:
    """What an episode told, guessing the lowest number each time; before a step something may happen."""
    environment = task.make()
    environment.reset(seed, "solo")
    told: list[Any] = []
    while not environment.done:
        (prompt,) = environment.prompts()
        if before_step and len(told) in before_step:
            before_step[len(told)]()
        told.append((prompt.messages, environment.step({"player": prompt.observation.actions[0]})))
    return [*told, environment.outcome()]


FAULTS = [f"{fault}:{at}" for fault in ("cut", "hang", "garbage", "empty", "broken") for at in (0, 2)]


def long_seed(task: OpenEnv, start: int = 0) -> int:
    """A seed from `start` on whose episode takes at least four guesses."""
    return next(seed for seed in range(start, start + 100) if len(played(task, seed)) > 4)


@pytest.fixture(scope="module")
def honest() -> Iterator[str]:
    with serving() as (url, _):
        yield url


@pytest.fixture(scope="module")
def faulty() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with serving("--faults", *FAULTS) as server:
        yield server


def test_an_honest_server_keeps_the_contract(honest: str) -> None:
    check_environment(OpenEnv(game(honest)).make, task_ids=range(5))


def test_the_player_sees_what_the_server_shows_it(honest: str) -> None:
    environment = OpenEnv(game(honest)).make()
    environment.reset(3, "solo")
    (prompt,) = environment.prompts()
    assert prompt.messages[1]["content"] == "said: guess\nactions: 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert "secret" not in str(prompt)
    assert environment.rules.refusal(prompt.observation, "10")
    assert environment.step({"player": PASS}) == {"player": 0.0}
    assert environment.prompts()[0].messages == prompt.messages


@pytest.mark.parametrize("seeds", ["ignored", "shared", "kept from reset to reset"])
def test_a_server_that_does_not_repeat_is_refused(seeds: str) -> None:
    with serving("--seeds", seeds, "--numbers", "99") as (url, _):
        environment = OpenEnv(game(url)).make()
        with pytest.raises(CastawayError, match=r"is not reproducible: two episodes of seed \d with the same actions"):
            environment.reset(0, "solo")
        allowed = OpenEnv(game(url, unseeded=True))
        assert len(played(allowed, 0)) > 1


@pytest.mark.parametrize("fault", FAULTS)
def test_an_episode_that_broke_is_played_again(honest: str, faulty: tuple[str, Any], fault: str) -> None:
    seed = long_seed(OpenEnv(game(honest)), 100 * (1 + FAULTS.index(fault)))
    assert played(OpenEnv(game(faulty[0])), seed) == played(OpenEnv(game(honest)), seed)


def test_half_an_episode_of_an_unseeded_server_is_not_completed(honest: str, faulty: tuple[str, Any]) -> None:
    seed = 1 + long_seed(OpenEnv(game(honest)), 100 * (1 + FAULTS.index("cut:2")))
    with pytest.raises(CastawayError, match="cannot be played again; run the stage again"):
        played(OpenEnv(game(faulty[0], unseeded=True)), long_seed(OpenEnv(game(honest)), seed))


def test_a_server_that_was_killed_is_asked_again_and_another_version_is_not_taken_for_it(honest: str) -> None:
    seed = long_seed(OpenEnv(game(honest)))
    with ExitStack() as stack:
        url, process = stack.enter_context(serving())
        running = [process]

        def start_again(*options: str) -> None:
            running[-1].kill()
            running[-1].wait()
            running.append(stack.enter_context(serving("--port", url.rsplit(":", 1)[1], *options))[1])

        task = OpenEnv(game(url))
        assert played(task, seed, {2: start_again}) == played(OpenEnv(game(honest)), seed)
        with pytest.raises(CastawayError, match=f"now plays episode {seed} in another way from turn 0 on"):
            played(task, seed, {2: lambda: start_again("--numbers", "8")})


def test_a_server_that_stays_away_stops_the_stage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    task = OpenEnv(game(url, deadline_seconds=1.0))
    with pytest.raises(CastawayError, match=f"{url} takes no connections; start it and run the stage again"):
        task.make().reset(0, "solo")
    broken = OpenEnv(game(url, deadline_seconds=20.0, patience_seconds=0.2))
    with pytest.raises(CastawayError, match="is out of order, and is not asked for a while"):
        broken.make().reset(0, "solo")


def test_a_server_that_hangs_stops_the_stage(faulty: tuple[str, subprocess.Popen[str]]) -> None:
    url, process = faulty
    environment = OpenEnv(game(url, attempt_seconds=0.5, deadline_seconds=1.0)).make()
    environment.reset(0, "solo")
    process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(CastawayError, match="was too slow to step; start it and run the stage again"):
            environment.step({"player": "1"})
    finally:
        process.send_signal(signal.SIGCONT)


def test_sessions_are_used_again_and_a_server_that_is_full_says_what_to_change() -> None:
    with serving("--sessions", "2") as (url, _):
        task = OpenEnv(game(url, deadline_seconds=2.0))
        for seed in range(6):
            played(task, seed)
            task.make().reset(seed, "solo")  # dropped in the middle of the episode
        busy = [task.make(), task.make()]
        for environment in busy:
            environment.reset(0, "solo")
        with pytest.raises(CastawayError, match="max_concurrent_envs of at least"):
            task.make().reset(0, "solo")


class NothingThere(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_another_kind_of_server_is_told() -> None:
    server = HTTPServer(("127.0.0.1", 0), NothingThere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(CastawayError, match="does not speak OpenEnv's protocol"):
            OpenEnv(game(f"http://127.0.0.1:{server.server_port}")).make().reset(0, "solo")
    finally:
        server.shutdown()


def test_a_field_or_an_action_that_is_not_there_is_told(honest: str) -> None:
    with pytest.raises(CastawayError, match=r"has no field 'board' in its observation; it has metadata, said, numbers"):
        OpenEnv(game(honest, show=["board"])).make().reset(0, "solo")
    for changes, said in (
        ({"action": "guess"}, "to the listed action '1'; mend game.action or game.actions"),
        ({"legal": "", "actions": [1, 99]}, "99 is out of the question to the listed action '99'"),
    ):
        environment = OpenEnv(game(honest, **changes)).make()
        environment.reset(0, "solo")
        with pytest.raises(CastawayError, match=said):
            environment.step({"player": list(environment.seen.actions)[-1 if "actions" in changes else 0]})
