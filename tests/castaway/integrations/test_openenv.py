"""The OpenEnv server, in a process of its own, over real connections."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openenv.core import GenericEnvClient
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.integrations.openenv import LONGEST_REPLY, MaroonedAction, MaroonedClient, MaroonedObservation
from castaway.integrations.openenv_server import LARGEST
from castaway.tasks.environment import HELD_OUT_START
from tests.shipped import ROOT

SESSIONS = 40


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    arguments = f"marooned openenv --port 0 --sessions {SESSIONS}".split()
    command = [sys.executable, "-m", "castaway.tools.cli.main", *arguments]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert server.stdout is not None
    yield server.stdout.readline().strip()
    server.send_signal(signal.SIGINT)
    assert server.wait(20) in (0, 130, -signal.SIGINT)


def best(observation: MaroonedObservation) -> MaroonedAction:
    return MaroonedAction(replies={prompt.agent: f"ACTION: {prompt.legal[0]}" for prompt in observation.prompts})


def local(seed: int, seat: str) -> list[tuple[Any, Any]]:
    """The same game without a server: prompts and rewards."""
    environment = MaroonedEnvironment("skiff", "full")
    environment.reset(seed, seat)
    told: list[tuple[Any, Any]] = [({p.agent: list(p.messages) for p in environment.prompts()}, {})]
    asked = [prompt.agent for prompt in environment.prompts()]
    while not environment.done:
        legal = {p.agent: environment.rules.legal_actions(p.observation)[0] for p in environment.prompts()}
        paid = environment.step(legal)
        prompts = {p.agent: list(p.messages) for p in environment.prompts()}
        told.append((prompts, {agent: paid[agent] for agent in asked}))
    return told


async def remote(url: str, seed: int, seat: str) -> list[tuple[Any, Any]]:
    async with MaroonedClient(base_url=url) as client:
        result = await client.reset(seed=seed, seat=seat)
        told = []
        while True:
            seen = result.observation
            told.append(({prompt.agent: prompt.messages for prompt in seen.prompts}, seen.rewards))
            if result.done:
                assert seen.success is not None and seen.ending
                return told
            result = await client.step(best(seen))
            assert result.observation.refusals == {}
            assert result.reward == pytest.approx(sum(result.observation.rewards.values()))


def test_it_listens_on_this_host_alone(url: str) -> None:
    assert url.startswith("http://127.0.0.1:")
    assert httpx.get(f"{url}/health").json() == {"status": "healthy"}
    schema = httpx.get(f"{url}/schema").json()
    assert "replies" in schema["action"]["properties"] and "prompts" in schema["observation"]["properties"]


def test_many_sessions_at_once_play_their_own_games(url: str) -> None:
    games = [(seed, ("crew", "traitor", "all")[seed % 3]) for seed in range(SESSIONS - 8)]

    async def all_of_them() -> list[Any]:
        return list(await asyncio.gather(*(remote(url, seed, seat) for seed, seat in games)))

    assert asyncio.run(all_of_them()) == [local(seed, seat) for seed, seat in games]


def test_one_session_too_many_is_told_so(url: str) -> None:
    async def crowd() -> str:
        clients = [MaroonedClient(base_url=url) for _ in range(SESSIONS)]
        await asyncio.gather(*(client.connect() for client in clients))
        await asyncio.gather(*(client.reset(seed=1) for client in clients))
        async with connect(f"{url.replace('http', 'ws')}/ws") as late:
            answer = str(await late.recv())
        await asyncio.gather(*(client.close() for client in clients))
        return answer

    assert json.loads(asyncio.run(crowd()))["data"]["code"] == "CAPACITY_REACHED"


def test_a_synchronous_and_an_untyped_client(url: str) -> None:
    with MaroonedClient(base_url=url).sync() as client:
        result = client.reset(seed=3, seat="traitor", episode_id="mine")
        [prompt] = result.observation.prompts
        assert prompt.role == "traitor" and "WAIT" in prompt.legal
        result = client.step(MaroonedAction(replies={prompt.agent: "I think I will MOVE NORTHEAST"}))
        assert result.observation.refusals == {prompt.agent: "The action is empty."}
        state = client.state()
        assert (state.scenario, state.seat, state.task_id, state.step_count) == ("skiff", "traitor", 3, 1)
        assert state.episode_id == "mine" and "sailors" not in state.model_dump()
    with GenericEnvClient(base_url=url).sync() as generic:
        seen = generic.reset(seed=3, seat="traitor").observation
        assert seen["prompts"][0]["agent"] == prompt.agent


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"seed": -1}, "whole number below"),
        ({"seed": HELD_OUT_START}, "held-out games"),
        ({"seat": ["crew"]}, "crew, traitor, all"),
        ({"colour": "red"}, "not colour"),
    ],
)
def test_a_wrong_reset_is_refused(url: str, arguments: dict[str, Any], told: str) -> None:
    with MaroonedClient(base_url=url).sync() as client:
        with pytest.raises(RuntimeError, match=told):
            client.reset(**arguments)
        assert client.reset(seed=1).observation.prompts  # the session lives on


def test_a_wrong_step_is_refused(url: str) -> None:
    with MaroonedClient(base_url=url).sync() as client:
        with pytest.raises(RuntimeError, match="reset first"):
            client.step(MaroonedAction(replies={}))
        client.reset(seed=1, seat="crew")
        with pytest.raises(RuntimeError, match="'Blackbeard' has no prompt now"):
            client.step(MaroonedAction(replies={"Blackbeard": "ACTION: WAIT"}))
        before = client.state().step_count
        assert client.step(MaroonedAction(replies={})).done is False
        assert client.state().step_count == before + 1


MALFORMED = [
    ("{", "INVALID_JSON"),
    ('{"type": "fly"}', "UNKNOWN_TYPE"),
    ('{"type": "reset", "data": 7}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"replies": {"Alice": 7}}}', "VALIDATION_ERROR"),
    (json.dumps({"type": "step", "data": {"replies": {"Alice": "x" * (LONGEST_REPLY + 1)}}}), "VALIDATION_ERROR"),
]


def test_malformed_messages_get_an_error_and_oversized_ones_end_the_session(url: str) -> None:
    async def throw() -> list[str]:
        codes = []
        async with connect(f"{url.replace('http', 'ws')}/ws") as socket:
            for message, _ in MALFORMED:
                await socket.send(message)
                answer = json.loads(await socket.recv())
                assert answer["type"] == "error" and (answer["data"]["message"] or answer["data"]["errors"])
                codes.append(answer["data"]["code"])
            await socket.send('{"type": "reset", "data": {"seed": 1}}')
            assert json.loads(await socket.recv())["type"] == "observation"
            await socket.send("x" * (LARGEST + 1))
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
        return codes

    assert asyncio.run(throw()) == [code for _, code in MALFORMED]
