"""The contract of a text environment.

Implement `TextEnvironment` and its `Rules` and every part of Castaway (datasets, teachers, rollouts, PPO,
evaluation) can use your game. `castaway.tasks.checker.check_environment` tests an implementation against this page.

**An episode.** `reset(task_id)` starts a deterministic episode: the same id, seat and typed actions give the same
prompts and rewards, byte for byte, on every machine. Then, until `done`:

1. `prompts()` names the agents that must act now, at least one, and gives each its chat messages. Several agents may
   act at once; they do not see each other's answers of the turn.
2. Somebody (a policy, a teacher, a person) decides on a *typed action* for each of them: a string in exactly the
   form that the rules define. `Rules.refusal(observation, action)` says whether it is legal.
3. `step(actions)` executes them. What is missing or not legal counts as the environment's `idle` action. It returns
   what *every* agent was paid since the last step, whether or not it was prompted: an agent without a turn can still
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

**Curriculum.** A task's curriculum is a tuple of `CurriculumStage`s, easy ones first: one if it is always the same.

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

Severity = Literal["form", "unknown", "forbidden", "impossible"]
"""How far from a legal action a text is. A teacher sets the penalty by it (`castaway.teacher.rules.PRICES`):

- `form`: one of the game's actions, but misspelt;
- `unknown`: nothing that the game calls an action;
- `forbidden`: an action that this player may not take, or not at this time, whatever the situation;
- `impossible`: an action that this player may take, but that cannot be done in this situation.
"""

Message = dict[str, str]
"""A chat message: `role` (system, user, assistant) and `content`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an action is not legal."""

    severity: Severity
    sentence: str
    """One short sentence that a teacher can quote."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one agent is asked in one turn."""

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
    """Further figures, for reports and curves."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Further words, for reports: what an episode is sorted by."""


@dataclass(frozen=True, slots=True)
class Played:
    """The result of an episode, for reports."""

    task_id: int
    seat: str
    outcome: Outcome
    turns: int
    """Replies in it."""
    invalid: int
    """Those of them that were no legal action."""


@dataclass(frozen=True, slots=True)
class CurriculumStage:
    """The episodes that training draws from for a while, and when it moves on to others."""

    name: str
    task_ids: Sequence[int]
    """Training ids, all with the same chance; a `range` will do, which takes no memory."""
    seats: tuple[str, ...]
    """The seats in which they are played, in turn."""
    threshold: float = 1.0
    """Share of successes in a full window from which the next stage is played."""
    floor: float = 0.0
    """Share of successes in a full window under which the stage before is played again."""
    window: int = 100
    """How many of the last episodes count for `threshold` and `floor`."""


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
