"""Castaway's tasks as an environment of verifiers, for its evaluator and for prime-rl.

    vf-eval castaway-verifiers --env.taskset.run strictbot --env.taskset.game '{"rendering": "full"}'

A row is a training id of a run in params.yaml. Each agent of the seat has a conversation of its own: its system prompt,
and in each turn what it sees. A reply needs a line `ACTION: ...`; one that is not legal counts as the idle action.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from castaway.config.errors import CastawayError
from castaway.tasks.environment import HELD_OUT_START, Prompt, TextEnvironment
from castaway.tasks.registry import game_model, load_task, read_params
from castaway.tasks.reply import parse_reply
from castaway.tasks.task import Task
from pydantic import Field


class CastawayConfig(vf.TasksetConfig):
    """Which run of params.yaml, and from which id on."""

    params: Path = Path("params.yaml")
    """The parameter file; only the run's task and its `game` section are read."""
    run: str = "strictbot"
    """A key of `tasks` in that file."""
    game: dict[str, Any] = Field(default_factory=dict)
    """What is set differently in the `game` section; the rendering `full` is the one for instruct models."""
    seat: str = ""
    """The seat that the model plays; if empty, the main one."""
    start: int = 0
    """The first id; ids from 1,000,000,000 on are held out by Castaway."""


class CastawayData(vf.TaskData):
    """An episode."""

    task: str
    game: dict[str, Any]
    seat: str
    episode: int


class CastawayTask(vf.Task[CastawayData]):
    """Scored by the environment."""


class CastawayTaskset(vf.Taskset[CastawayTask, CastawayConfig]):
    """The training ids of a task, one after another."""

    INFINITE = True

    def load(self) -> Iterator[CastawayTask]:
        """A row for each training id.

        Raises:
            CastawayError: the file cannot be read, or has no such run.
        """
        config = self.config
        block = read_params(config.params).tasks.get(config.run)
        if block is None:
            raise CastawayError(f"{config.params} has no run {config.run!r} under tasks")
        game = {**block.game.model_dump(), **config.game}
        task = made(block.task, game)
        seat, ids = config.seat or task.evaluation_seats[0], task.training_ids()
        for number in count(config.start):
            if number >= min(len(ids), HELD_OUT_START):
                return
            yield CastawayTask(
                CastawayData(
                    name=f"{config.run}#{ids[number]}",
                    task=block.task,
                    game=game,
                    seat=seat,
                    episode=ids[number],
                ),
                config.task,
            )


class CastawayEnvConfig(vf.EnvConfig):
    """One model plays all agents of the seat."""

    player: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})


class CastawayEnv(vf.Env[CastawayEnvConfig]):
    """Plays an episode; `game_reward` of a conversation is what its agent was paid."""

    async def run(self, task: CastawayTask, agents: vf.Agents) -> None:
        """One episode, with a conversation for each agent."""
        data = task.data
        environment = made(data.task, data.game).make()
        environment.reset(data.episode, data.seat)
        talks: dict[str, _Talk] = {}
        async with AsyncExitStack() as stack:
            while not environment.done:
                actions = {}
                for prompt in environment.prompts():
                    if prompt.agent not in talks:
                        talks[prompt.agent] = await _opened(stack, agents, task, prompt)
                    actions[prompt.agent] = await talks[prompt.agent].action(environment, prompt)
                for agent, paid in environment.step(actions).items():
                    if agent in talks:
                        talks[agent].total += paid
        outcome = environment.outcome()
        for agent, talk in talks.items():
            talk.trace.record_reward("game_reward", talk.total)
            talk.trace.record_metrics({"success": float(outcome.success), "invalid_replies": float(talk.invalid)})
            talk.trace.info |= {"agent": agent, "ending": outcome.ending}


class _Talk:
    """The conversation with one agent."""

    def __init__(self, interaction: vf.Interaction, system: str) -> None:
        self._interaction, self._system = interaction, system
        self._over = False
        self.total, self.invalid = 0.0, 0

    @property
    def trace(self) -> vf.Trace:
        """The record of the conversation."""
        return self._interaction.trace

    async def action(self, environment: TextEnvironment, prompt: Prompt) -> str:
        """What the agent does now; idle if its reply is not legal, or if its conversation was ended."""
        if self._over:
            return environment.idle
        system, said = _parts(prompt)
        if system != self._system:
            self._system, said = system, f"{system}\n\n{said}"
        segment = await self._interaction.turn(said)
        self._over = segment.terminated
        action = parse_reply(segment.last_reply).action
        if environment.rules.refusal(prompt.observation, action) is None:
            return action
        self.invalid += not self._over
        return environment.idle


async def _opened(stack: AsyncExitStack, agents: vf.Agents, task: CastawayTask, prompt: Prompt) -> _Talk:
    system, _ = _parts(prompt)
    own = type(task)(task.data.model_copy(update={"system_prompt": system or None}), task.config)
    return _Talk(await stack.enter_async_context(agents.player.interaction(own)), system)


def _parts(prompt: Prompt) -> tuple[str, str]:
    """The system message of a prompt and what follows it."""
    system = [message["content"] for message in prompt.messages if message["role"] == "system"]
    said = [message["content"] for message in prompt.messages if message["role"] != "system"]
    return "\n\n".join(system), "\n\n".join(said)


def made(name: str, game: dict[str, Any]) -> Task[Any]:
    """The task of Castaway with this name and `game` section."""
    return load_task(name, game_model(name).model_validate(game))
