"""Where environments of verifiers run, and how a policy of Castaway is the model that they ask.

An environment of verifiers calls the model; one of Castaway is called by the policy. So each episode runs as a task of
an event loop, in a thread of its own, and the model that it asks is a server on this host whose requests wait until
`Play.answer` brings the reply. Only one agent of an episode runs at a time: which of them is faster changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import verifiers.v1 as vf
from aiohttp import web
from castaway.config.errors import CastawayError, first_line
from castaway.teacher.chat_client import LoopThread
from verifiers.v1.clients.client import SESSION_ID_HEADER
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.utils.loaders import load_environment, resolve_env_config

from castaway_verifiers.params import VerifiersParams

Result = TypeVar("Result")
HARNESS = {"harness": {"id": "castaway-verifiers"}, "runtime": {"type": "subprocess"}}
"""How each agent is run: by `ChatHarness`, in this process."""


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent is asked, in OpenAI's form."""

    agent: str
    messages: Sequence[Mapping[str, Any]]


class Host:
    """The environment of a `game` section, its tasks, and the server that its agents take for a model."""

    def __init__(self, game: VerifiersParams) -> None:
        """Load the environment and its tasks.

        Raises:
            CastawayError: there is no such environment, it has too few tasks, or its settings are wrong.
        """
        self.game = game
        plays = {"taskset": {**game.taskset, "id": game.id}, **({"id": game.environment} if game.environment else {})}
        try:
            self.agents = tuple(agent_config_fields(resolve_env_config(plays)))
            roles = {name: {**HARNESS, "max_turns": game.turns} for name in self.agents}
            self.environment = load_environment(resolve_env_config({**plays, **roles}))
            self.tasks = list(self.environment.taskset.take(game.tasks))
        except Exception as error:  # it is somebody else's code
            raise CastawayError(f"verifiers cannot load {game.id!r}: {first_line(error)}") from None
        if len(self.tasks) <= game.held_out:
            raise CastawayError(
                f"{game.id} has {len(self.tasks)} tasks, of which {game.held_out} are held out: lower game.held_out"
            )
        self.plays: dict[str, Play] = {}
        """Episodes by the id of each of their traces."""
        self._loop = LoopThread("verifiers")
        self.run(self._start())

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`, done in the loop."""
        return self._loop.run(work)

    async def _start(self) -> None:
        server = web.Application(client_max_size=1 << 24)
        server.router.add_post("/v1/chat/completions", self._asked)
        runner = web.AppRunner(server, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        client = vf.EvalClientConfig(base_url=f"http://{host}:{port}/v1", api_key_var="CASTAWAY_NO_KEY")
        self.context = vf.ModelContext(model="castaway", client=client)
        # Never left: both end with the process.
        self._serving = self.environment.serving()
        await self._serving.__aenter__()

    async def _asked(self, request: web.Request) -> web.Response:
        """A request of an agent, which waits for the policy's reply."""
        play = self.plays.get(request.headers.get(SESSION_ID_HEADER, ""))
        if play is None:
            return web.json_response({"error": {"message": "nobody plays this episode any more"}}, status=410)
        text = await play.ask(request.headers[SESSION_ID_HEADER], (await request.json())["messages"])
        message = {"role": "assistant", "content": text}
        return web.json_response(
            {
                "id": "castaway",
                "object": "chat.completion",
                "created": 0,
                "model": "castaway",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
            }
        )


class Play:
    """One episode."""

    def __init__(self, host: Host, row: int) -> None:
        """Begin nothing yet."""
        self._host, self._task = host, host.tasks[row]
        self._traces: list[vf.Trace] = []
        self._waiting: asyncio.Queue[tuple[Question, asyncio.Future[str]]] = asyncio.Queue()
        self._answer: asyncio.Future[str] | None = None

    async def begin(self) -> Question | dict[str, float]:
        """Start the episode; returns as `answer` does."""
        self._episode = asyncio.create_task(
            self._host.environment.run_episode(self._task, self._host.context, on_trace=self._minted)
        )
        return await self._next()

    async def answer(self, text: str) -> Question | dict[str, float]:
        """Reply to the question; the next one, or what each agent is paid at the end.

        Raises:
            CastawayError: the environment has failed, or takes too long.
        """
        if self._answer is None:
            raise AssertionError("nothing was asked")
        self._answer.set_result(text)
        return await self._next()

    async def stop(self) -> None:
        """End the episode, wherever it is."""
        self._episode.cancel()
        await asyncio.gather(self._episode, return_exceptions=True)
        self._forget()

    async def ask(self, trace: str, messages: Sequence[Mapping[str, Any]]) -> str:
        """The policy's reply to an agent."""
        agent = next((one.agent.name for one in self._traces if one.id == trace and one.agent), None)
        reply = asyncio.get_running_loop().create_future()
        await self._waiting.put((Question(agent or self._host.agents[0], messages), reply))
        return str(await reply)

    def _minted(self, trace: vf.Trace) -> None:
        self._traces.append(trace)
        self._host.plays[trace.id] = self

    async def _next(self) -> Question | dict[str, float]:
        asked = asyncio.create_task(self._waiting.get())
        limit = self._host.game.seconds
        await asyncio.wait({asked, self._episode}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            question, self._answer = asked.result()
            return question
        asked.cancel()
        if not self._episode.done():
            await self.stop()
            raise CastawayError(f"{self._host.game.id} neither asks nor ends within {limit:g} s; raise game.seconds")
        self._forget()
        return self._paid(self._episode.result())

    def _paid(self, episode: vf.Episode) -> dict[str, float]:
        """The rewards by agent."""
        errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
        if not episode.ok:
            reason = first_line(ValueError(errors[0].message)) if errors else "no reason was given"
            raise CastawayError(f"an episode of {self._host.game.id} failed in verifiers: {reason}")
        paid = dict.fromkeys(self._host.agents, 0.0)
        for trace in episode.traces:
            name = trace.agent.name if trace.agent and trace.agent.name in paid else self._host.agents[0]
            paid[name] += float(trace.reward)
        return paid

    def _forget(self) -> None:
        for trace in self._traces:
            self._host.plays.pop(trace.id, None)
