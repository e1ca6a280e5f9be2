"""MAROONED as an OpenEnv environment: the messages, the environment, and a typed client.

    castaway openenv --scenario skiff --port 8000

    with MaroonedClient(base_url="http://127.0.0.1:8000").sync() as client:
        result = client.reset(seed=7, seat="crew")
        while not result.done:
            replies = {prompt.agent: my_model(prompt.messages) for prompt in result.observation.prompts}
            result = client.step(MaroonedAction(replies=replies))

Each connection is a session with its own game. A step takes one reply for each sailor of the seat that has a prompt:
the text after `ACTION: ` is the action, and an invalid reply is replaced by waiting. The seed is the task id.
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
"""Maximum length of a reply, in characters."""

Text = Annotated[str, Field(max_length=LONGEST_REPLY)]


class MaroonedAction(Action):
    """The replies of the sailors' models."""

    replies: dict[str, Text] = Field(max_length=64, description="Sailor to a text with a line `ACTION: <action>`")

    @classmethod
    def typed(cls, actions: dict[str, str]) -> MaroonedAction:
        """Make it from actions, without any reasoning."""
        return cls(replies={agent: str(Reply("", action)) for agent, action in actions.items()})


class SailorPrompt(BaseModel):
    """The prompt of one sailor."""

    agent: str
    role: str
    messages: list[Message]
    legal: list[str]
    """All legal actions except talk, as text."""


class MaroonedObservation(Observation):
    """The prompts of the seat's sailors, and the results of their last actions; `reward` is the sum of `rewards`."""

    prompts: list[SailorPrompt] = Field(default_factory=list)
    rewards: dict[str, float] = Field(default_factory=dict, description="The reward of each sailor of the seat")
    refusals: dict[str, str] = Field(default_factory=dict, description="Why a reply was invalid, in one sentence")
    success: bool | None = Field(default=None, description="Whether the seat has won, once done")
    ending: str = Field(default="", description="How the game ended, once done")


class MaroonedState(State):
    """The state of a session. It contains nothing that a sailor may not know."""

    scenario: str = ""
    seat: str = ""
    task_id: int | None = None


class MaroonedOpenEnvironment(Environment[MaroonedAction, MaroonedObservation, MaroonedState]):
    """The environment of one session."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, scenario: str = "skiff", rendering: str = "full") -> None:
        """Prepare for games of one scenario, with prompts in one rendering: `full` or `compact`."""
        super().__init__()
        self._game = MaroonedEnvironment(scenario, rendering)
        self._state = MaroonedState(scenario=scenario)
        self._playing: tuple[str, ...] = ()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, seat: str = "crew", **kwargs: Any
    ) -> MaroonedObservation:
        """Start the game with the task id `seed`; without a seed, with the id after this session's last one.

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
            ValueError: no game is being played, or a reply is for a sailor without a prompt.
        """
        if self._state.task_id is None:
            raise ValueError("there is no game yet: reset first, over the same connection")
        if self._game.done:
            raise ValueError("the game is over: reset before the next step")
        prompts = {prompt.agent: prompt for prompt in self._game.prompts()}
        unknown = sorted(set(action.replies) - set(prompts))
        if unknown:
            raise ValueError(f"{unknown[0][:40]!r} has no prompt now: reply for {', '.join(prompts)}")
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
        """The current game."""
        return self._state


class MaroonedClient(EnvClient[MaroonedAction, MaroonedObservation, MaroonedState]):
    """A client for a server of MAROONED; each connection is a session."""

    def _step_payload(self, action: MaroonedAction) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[MaroonedObservation]:
        reward, done = payload.get("reward"), bool(payload.get("done"))
        observation = MaroonedObservation.model_validate({**payload["observation"], "reward": reward, "done": done})
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> MaroonedState:
        return MaroonedState.model_validate(payload)
