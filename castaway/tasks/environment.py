"""The contract of a text environment.

Implement `TextEnvironment` and its `Rules` and every part of Castaway (datasets, teachers, rollouts, PPO,
evaluation) can use your game. `castaway.tasks.checker.check_environment` tests an implementation against this page.

**An episode.** `reset(task_id)` starts a deterministic episode: the same id, seat and typed actions give the same
prompts and rewards, byte for byte, on every machine. Then, until `done`:

1. `prompts()` says who must speak now and hands each speaker its chat messages. There is at least one speaker.
   Several agents may speak at once; they do not see each other's answers of the turn.
2. Somebody (a policy, a teacher, a person) decides on a *typed action* for each speaker: a string in exactly the
   form that the rules define. `Rules.refusal(observation, action)` says whether it is legal.
3. `step(actions)` executes them. What is missing or not legal counts as the environment's `idle` action. It returns
   what *every* agent was paid since the last step, whether or not it had to speak: an agent without a turn can still
   earn or lose.

Every episode ends, even one in which nobody does anything but idle. After `done` nobody is prompted and `step` raises
ValueError.

**Sealed.** A prompt's messages are a function of its `observation`, and the observation holds only what its agent
may know. Legality is decided from the observation as well, so that neither text nor refusals can leak.

**Task ids.** Any id of 0 or more is an episode. Ids below `HELD_OUT_START` are for training, the others for
evaluation; no training stage may draw one of those.

**Seats.** An environment names what a caller can take (`seats`): a group of its agents, against some script or other.
`reset(task_id, seat)` hands the agents of that seat to the caller and plays all others itself.

**Self-play.** An environment may have the seat `self` (`SELF_PLAY`). In it the environment plays nobody: the others are
prompted too, in turns of their own or beside the agents of the seat, and their prompts are marked (`Prompt.rival`).
Training lets an earlier policy of the learner's own answer those, and learns nothing from them.

**Stages.** A task's curriculum is a tuple of `Stage`s, easy ones first; a task that has none has one stage.

**Randomness** comes from the task id only; **time** does not exist; nothing is printed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

HELD_OUT_START = 1_000_000_000
"""The first task id that no training stage can draw."""

SELF_PLAY = "self"
"""The seat in which the caller plays the others as well."""

RefusalKind = Literal["form", "verb", "role", "phase", "situation", "energy"]
"""What is wrong: misspelt arguments, an unknown verb, not for this role, not now, not here, no strength left."""

Message = dict[str, str]
"""A chat message: `role` (system, user, assistant) and `content`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an action is not legal: a kind, and one short sentence that a teacher can quote."""

    kind: RefusalKind
    sentence: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One agent's turn to speak."""

    agent: str
    role: str
    """The part that the agent plays (colonist, traitor, player ...): advantages may be normalised by it."""
    messages: tuple[Message, ...]
    """What a language model is shown."""
    observation: Any
    """The structure that the messages are rendered from: all that the agent knows, and nothing else."""
    rival: bool = False
    """Whether the agent is one of the others in self-play: nobody learns from its turn."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended."""

    success: bool
    """Did the seat that was reset win?"""
    ending: str
    """In a few words."""
    details: Mapping[str, float] = field(default_factory=dict)
    """Further figures, for reports."""


@dataclass(frozen=True, slots=True)
class Played:
    """What became of an episode that somebody played, for reports."""

    task_id: int
    seat: str
    outcome: Outcome
    turns: int
    """Replies in it."""
    invalid: int
    """Those of them that were no legal action."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What is played for a while in training."""

    name: str
    task_ids: Sequence[int]
    """Training ids, all with the same chance; it may be long and hold nothing, as a `range` does."""
    seats: tuple[str, ...]
    """What is played on them, in turn."""
    threshold: float = 1.0
    """Share of successes in a full window from which the next stage is played."""
    floor: float = 0.0
    """Share of successes in a full window under which the stage before is played again."""
    window: int = 100
    """Episodes in a row that are looked at."""


class Rules(Protocol):
    """What may be typed, decided from an observation alone."""

    def refusal(self, observation: Any, action: str) -> Refusal | None:
        """Why `action` is not legal for this observation, or None if it is."""
        ...

    def legal_actions(self, observation: Any) -> tuple[str, ...]:
        """Legal actions as typed, in a fixed order, never empty. Free text (talk) may be left out."""
        ...

    def repair(self, observation: Any, text: str) -> str:
        """The legal action nearest to what somebody who wrote `text` may have meant; any string is accepted."""
        ...

    def reason(self, observation: Any, action: str) -> str:
        """What a player may give as its reason for a legal action: a few words on one line, never empty."""
        ...

    def blunder(self, observation: Any, action: str) -> str:
        """One sentence on why a legal action is a strategic mistake on what the agent knows, or empty."""
        ...


class TextEnvironment(ABC):
    """A game played in text. See the module for the contract."""

    name: str
    """The task's name."""
    agents: tuple[str, ...]
    """All agents, in a fixed order."""
    seats: tuple[str, ...]
    """What a caller can take."""
    idle: str
    """A typed action that is always legal and does nothing."""
    rules: Rules

    @abstractmethod
    def reset(self, task_id: int, seat: str) -> None:
        """Start the episode of `task_id`, with the agents of `seat` left to the caller.

        Raises:
            ValueError: the id is negative or the seat unknown.
        """

    @abstractmethod
    def prompts(self) -> tuple[Prompt, ...]:
        """Who must speak now: at least one agent of the seat, or of the others in self-play; after `done` none."""

    @abstractmethod
    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        """Execute typed actions by agent and return what every agent was paid since the last step."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the episode has ended."""

    @abstractmethod
    def outcome(self) -> Outcome:
        """How it ended; valid once `done`."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """The whole truth of this moment as JSON-able data, for replays; later steps do not change it.

        It is never shown to an agent.
        """


def block_of(seed: int) -> int:
    """Where the task ids of a seed begin within a range of a hundred million: no two of a hundred seeds share one."""
    return seed % 100 * 1_000_000


def ids_in_a_row(task_ids: Sequence[int], start: int, count: int) -> list[int]:
    """`count` neighbours of a sequence, from the place in it that `start` has among all training ids.

    So stages that begin at different training ids take different ones of any task, however few a task has.
    """
    first = start * len(task_ids) // HELD_OUT_START
    return [task_ids[first + number] for number in range(count)]


def is_held_out(task_id: int) -> bool:
    """Whether a task id is reserved for evaluation."""
    return task_id >= HELD_OUT_START
