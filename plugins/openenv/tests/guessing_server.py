"""Guess a number: an OpenEnv server that keeps its seeds or does not, and that has every fault there is.

    python guessing_server.py [--port 8000] [--seeds honest] [--faults cut:0 cut:2] [--sessions 64] [--numbers 9]

It prints its address. Seeds from 100 on have the first fault, those from 200 on the second, and so on: it comes once
for each seed, at that message after the reset.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
from random import Random
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

NUMBERS = 9
SEEDS = "honest"
SECRET = Random()


class Guess(Action):
    number: int


class Answer(Observation):
    said: str = ""
    numbers: list[int] = Field(default_factory=list)


class Guessing(Environment[Guess, Answer, State]):
    """The first observation is always the same; the answers tell which number it is."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        self.random = Random(7)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Answer:
        self.low, self.high, self.secret = 1, NUMBERS, 0
        if SEEDS == "honest":
            self.random = Random(seed)
        elif SEEDS == "shared":
            random.seed(seed)
        return self.answer("guess", 0.0, False)

    def draw(self) -> int:
        """The secret: of the seed, of nothing, of the process, or of what the session played before."""
        source: Any = {"ignored": SECRET, "shared": random}.get(SEEDS, self.random)
        return int(source.randint(1, NUMBERS))

    def step(self, action: Guess, timeout_s: float | None = None, **kwargs: Any) -> Answer:
        self.secret = self.secret or self.draw()
        if not self.low <= action.number <= self.high:
            raise ValueError(f"{action.number} is out of the question")
        if action.number == self.secret:
            return self.answer("right", 1.0, True)
        if action.number < self.secret:
            self.low = action.number + 1
            return self.answer("more", -0.1, False)
        self.high = action.number - 1
        return self.answer("less", -0.1, False)

    def answer(self, said: str, reward: float, done: bool) -> Answer:
        listed = list(range(self.low, self.high + 1))
        return Answer(said=said, numbers=listed, reward=reward, done=done, metadata={"secret": self.secret})

    @property
    def state(self) -> State:
        return State()


class Faulty:
    """Hands messages to the server, but for those that a fault stands for."""

    def __init__(self, app: Any, faults: list[str]) -> None:
        self.app = app
        self.faults = {number: (name, int(at)) for number, (name, at) in enumerate((f.split(":") for f in faults), 1)}
        self.had: set[int] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        seed, count = 0, 0

        async def next_message() -> Any:
            nonlocal seed, count
            while True:
                event = await receive()
                if not event.get("text"):
                    return event
                message, count = json.loads(event["text"]), count + 1
                if message["type"] == "reset":
                    seed, count = message["data"]["seed"], 0
                fault, at = self.faults.get(seed // 100, ("", -1))
                if count != at or seed in self.had:
                    return event
                self.had.add(seed)
                if fault == "cut":
                    await send({"type": "websocket.close", "code": 1011})
                    return {"type": "websocket.disconnect", "code": 1011}
                if fault == "hang":
                    await asyncio.Event().wait()
                texts = {"garbage": "<html>", "empty": "{}", "broken": '{"type": "error", "data": {"code": "?"}}'}
                await send({"type": "websocket.send", "text": texts[fault]})

        await self.app(scope, next_message, send)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seeds", default="honest")
    parser.add_argument("--faults", nargs="*", default=[])
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--numbers", type=int, default=9)
    given = parser.parse_args()
    SEEDS, NUMBERS = given.seeds, given.numbers
    app = create_fastapi_app(Guessing, Guess, Answer, max_concurrent_envs=given.sessions)
    with socket.create_server(("127.0.0.1", given.port)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        uvicorn.Server(uvicorn.Config(Faulty(app, given.faults), log_level="error")).run(sockets=[listening])
