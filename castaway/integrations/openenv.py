"""MAROONED as an OpenEnv environment: what goes over the wire, the environment behind it, and a typed client.

    castaway openenv --scenario skiff --port 8000

    with MaroonedClient(base_url="http://127.0.0.1:8000").sync() as client:
        result = client.reset(seed=7, seat="crew")
        while not result.done:
            replies = {prompt.agent: my_model(prompt.messages) for prompt in result.observation.prompts}
            result = client.step(MaroonedAction(replies=replies))

Each connection is a session with a game of its own. A step answers for all sailors of the seat that are asked, with
what a model wrote: its line `ACTION: ` counts, and what is not a legal action there is waiting. The seed is the task
id.
"""

from __future__ import annotations

from typing import Annotated, Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, Field

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.tasks.environment import HELD_OUT_START, Message
from castaway.tasks.reply import Reply, parse_reply

LONGEST_REPLY = 16_384
"""Characters that a model may write in a turn."""

Text = Annotated[str, Field(max_length=LONGEST_REPLY)]


class MaroonedAction(Action):
    """What the sailors' models wrote."""

    replies: dict[str, Text] = Field(max_length=64, description="Sailor to a text with a line `ACTION: <action>`")

    @classmethod
    def typed(cls, actions: dict[str, str]) -> MaroonedAction:
        """From typed actions without a reasoning."""
        return cls(replies={agent: str(Reply("", action)) for agent, action in actions.items()})


class SailorPrompt(BaseModel):
    """One sailor's turn to speak."""

    agent: str
    role: str
    messages: list[Message]
    legal: list[str]
    """Legal actions but talk, as typed."""


class MaroonedObservation(Observation):
    """What the sailors of the seat are shown, and what came of their last actions; `reward` is their sum."""

    prompts: list[SailorPrompt] = Field(default_factory=list)
    rewards: dict[str, float] = Field(default_factory=dict, description="What each sailor of the seat was paid")
    refusals: dict[str, str] = Field(default_factory=dict, description="Why a reply was waiting, in one sentence")
    success: bool | None = Field(default=None, description="Whether the seat has won, once done")
    ending: str = Field(default="", description="How the game ended, once done")


class MaroonedState(State):
    """Which game it is. Nothing in it that a sailor may not know."""

    scenario: str = ""
    seat: str = ""
    task_id: int | None = None


class MaroonedOpenEnvironment(Environment[MaroonedAction, MaroonedObservation, MaroonedState]):
    """One session's game."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, scenario: str = "skiff", rendering: str = "full") -> None:
        """A table for games of one scenario."""
        super().__init__()
        self._game = MaroonedEnvironment(scenario, rendering)
        self._state = MaroonedState(scenario=scenario)
        self._playing: tuple[str, ...] = ()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, seat: str = "crew", **kwargs: Any
    ) -> MaroonedObservation:
        """Start the game of the task id `seed`; without one, of the id after this session's last.

        Raises:
            ValueError: an argument is unknown or wrong, or the id is held out for evaluation.
        """
        before = self._state.task_id
        task_id = (0 if before is None else before + 1) if seed is None else seed
        if kwargs:
            raise ValueError(f"reset knows seed, episode_id and seat, not {', '.join(sorted(kwargs))[:80]}")
        if isinstance(task_id, bool) or not isinstance(task_id, int) or not 0 <= task_id < HELD_OUT_START:
            raise ValueError(f"the seed must be a whole number below {HELD_OUT_START}, where held-out games begin")
        if seat not in self._game.seats:
            raise ValueError(f"the seat must be one of {', '.join(self._game.seats)}")
        if episode_id is not None and not isinstance(episode_id, str):
            raise ValueError("the episode_id must be a text")
        self._game.reset(task_id, seat)
        self._state = MaroonedState(
            episode_id=episode_id or f"{seat}-{task_id}", scenario=self._game.scenario.name, seat=seat, task_id=task_id
        )
        self._playing = tuple(prompt.agent for prompt in self._game.prompts())
        return self._observation({}, {})

    def step(self, action: MaroonedAction, timeout_s: float | None = None, **kwargs: Any) -> MaroonedObservation:
        """Play one turn.

        Raises:
            ValueError: no game is being played, or a reply is by somebody who is not asked.
        """
        if self._state.task_id is None:
            raise ValueError("there is no game yet: reset first, over the same connection")
        if self._game.done:
            raise ValueError("the game is over: reset before the next step")
        prompts = {prompt.agent: prompt for prompt in self._game.prompts()}
        strangers = sorted(set(action.replies) - set(prompts))
        if strangers:
            raise ValueError(f"{strangers[0][:40]!r} is not asked: reply for {', '.join(prompts)}")
        typed = {agent: parse_reply(text).action for agent, text in action.replies.items()}
        found = {agent: self._game.rules.refusal(prompts[agent].observation, text) for agent, text in typed.items()}
        rewards = self._game.step(typed)
        self._state.step_count += 1
        refusals = {agent: refusal.sentence for agent, refusal in found.items() if refusal}
        return self._observation({agent: rewards[agent] for agent in self._playing}, refusals)

    def _observation(self, rewards: dict[str, float], refusals: dict[str, str]) -> MaroonedObservation:
        done = self._game.done
        outcome = self._game.outcome() if done else None
        prompts = [
            SailorPrompt(
                agent=prompt.agent,
                role=prompt.role,
                messages=list(prompt.messages),
                legal=list(self._game.rules.legal_actions(prompt.observation)),
            )
            for prompt in self._game.prompts()
        ]
        return MaroonedObservation(
            prompts=prompts,
            rewards=rewards,
            refusals=refusals,
            reward=sum(rewards.values()),
            done=done,
            success=outcome.success if outcome else None,
            ending=outcome.ending if outcome else "",
        )

    @property
    def state(self) -> MaroonedState:
        """Which game it is."""
        return self._state


class MaroonedClient(EnvClient[MaroonedAction, MaroonedObservation, MaroonedState]):
    """A session on a server of MAROONED."""

    def _step_payload(self, action: MaroonedAction) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[MaroonedObservation]:
        reward, done = payload.get("reward"), bool(payload.get("done"))
        observation = MaroonedObservation.model_validate({**payload["observation"], "reward": reward, "done": done})
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> MaroonedState:
        return MaroonedState.model_validate(payload)
