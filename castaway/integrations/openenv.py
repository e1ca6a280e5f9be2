"""MAROONED as an OpenEnv environment: the messages, the environment, and a typed client.

    castaway marooned openenv --scenario skiff --port 8000

    with MaroonedClient(base_url="http://127.0.0.1:8000").sync() as client:
        result = client.reset(seed=7, seat="crew")
        while not result.done:
            replies = {prompt.agent: my_model(prompt.messages) for prompt in result.observation.prompts}
            result = client.step(MaroonedAction(replies=replies))

Each connection is a session with its own game. A step takes one reply for each sailor of the seat that has a prompt:
the text after `ACTION: ` is the action, and an invalid reply is replaced by waiting. The seed is the task id.
"""

from typing import Annotated, Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, Field

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.tasks.environment import HELD_OUT_START, Message
from castaway.tasks.reply import parse_reply

LONGEST_REPLY = 16_384  # characters

Text = Annotated[str, Field(max_length=LONGEST_REPLY)]


class MaroonedAction(Action):
    replies: dict[str, Text] = Field(max_length=64, description="Sailor to a text with a line `ACTION: <action>`")


class SailorPrompt(BaseModel):
    agent: str
    role: str
    messages: list[Message]
    legal: list[str]  # all legal actions except talk, as text


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
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, scenario: str = "skiff", rendering: str = "full") -> None:
        super().__init__()
        self._game = MaroonedEnvironment(scenario, rendering)
        self._state = MaroonedState(scenario=scenario)
        self._playing: tuple[str, ...] = ()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, seat: str = "crew", **kwargs: Any
    ) -> MaroonedObservation:
        """Start the game with the task id `seed`, by default the one after the last. ValueError names a wrong one."""
        before = self._state.task_id
        task_id = (0 if before is None else before + 1) if seed is None else seed
        if kwargs:
            raise ValueError(f"reset knows seed, episode_id and seat, not {', '.join(sorted(kwargs))[:80]}")
        if not isinstance(task_id, int) or not 0 <= task_id < HELD_OUT_START:
            raise ValueError(f"the seed must be a whole number below {HELD_OUT_START}, where held-out games begin")
        if seat not in self._game.seats:
            raise ValueError(f"the seat must be one of {', '.join(self._game.seats)}")
        self._game.reset(task_id, seat)
        self._state = MaroonedState(
            episode_id=episode_id or f"{seat}-{task_id}", scenario=self._game.scenario.name, seat=seat, task_id=task_id
        )
        self._playing = tuple(prompt.agent for prompt in self._game.prompts())
        return self._observation({}, {})

    def step(self, action: MaroonedAction, timeout_s: float | None = None, **kwargs: Any) -> MaroonedObservation:
        """Play one turn; ValueError if no game is being played, or a reply is for a sailor without a prompt."""
        if self._state.task_id is None:
            raise ValueError("there is no game yet: reset first, over the same connection")
        if self._game.done:
            raise ValueError("the game is over: reset before the next step")
        prompts = {prompt.agent: prompt for prompt in self._game.prompts()}
        if unknown := sorted(set(action.replies) - set(prompts)):
            raise ValueError(f"{unknown[0][:40]!r} has no prompt now: reply for {', '.join(prompts)}")
        typed = {agent: parse_reply(text).action for agent, text in action.replies.items()}
        checked = {agent: self._game.rules.refusal(prompts[agent].observation, text) for agent, text in typed.items()}
        rewards = self._game.step(typed)
        self._state.step_count += 1
        refusals = {agent: refusal.sentence for agent, refusal in checked.items() if refusal}
        return self._observation({agent: rewards[agent] for agent in self._playing}, refusals)

    def _observation(self, rewards: dict[str, float], refusals: dict[str, str]) -> MaroonedObservation:
        observation = MaroonedObservation(rewards=rewards, refusals=refusals, reward=sum(rewards.values()))
        for prompt in self._game.prompts():
            legal = list(self._game.rules.legal_actions(prompt.observation))
            shown = SailorPrompt(agent=prompt.agent, role=prompt.role, messages=list(prompt.messages), legal=legal)
            observation.prompts.append(shown)
        if self._game.done:
            outcome = self._game.outcome()
            observation.done, observation.success, observation.ending = True, outcome.success, outcome.ending
        return observation

    @property
    def state(self) -> MaroonedState:
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
