"""The contract of a text environment.

Implement `TextEnvironment` and its `Rules` and every part of Castaway (datasets, teachers, rollouts, PPO,
evaluation) can use your game. `castaway.tasks.checker.check_environment` tests an implementation against this page.

**An episode.** `reset(task_id)` starts a deterministic episode: the same id, seat and typed actions give the same
prompts and rewards, byte for byte, on every machine. Then, until `done`:

1. `prompts()` returns a prompt, with chat messages, for each agent that must act now; there is at least one. Several
   agents may act at once; they do not see each other's replies of the same turn.
2. The caller (a policy, a teacher, a person) chooses a *typed action* for each of them: a string in exactly the form
   that the rules define. `Rules.refusal(observation, action)` returns why it is not legal, or None if it is.
3. `step(actions)` executes them. A missing or illegal action is replaced by the environment's `idle` action. `step`
   returns the reward of *every* agent since the last step, whether or not it was prompted: an agent without a turn can
   still gain or lose.

Every episode ends, even if all agents stay idle. After `done` there are no prompts, and `step` raises ValueError.

**No leaks.** A prompt's messages are a function of its `observation`, and the observation holds only what its agent
may know. Legality is decided from the observation as well, so neither prompts nor refusals can reveal hidden state.

**Task ids.** Any id of 0 or more is an episode. Ids below `HELD_OUT_START` are for training, the others for
evaluation; no training stage may draw one of those. Held-out ids lie in numbered blocks (`held_out_ids`): each release
is asked one that nothing was asked before, and blocks from `AUDIT_BLOCKS` on are for whoever audits the project.

**Seats.** A seat names the agents that the caller plays and the opponents that it plays against. After
`reset(task_id, seat)` the caller plays the agents of that seat; the environment plays all others.

**Self-play.** An environment may have the seat `self` (`SELF_PLAY`). In it the environment plays no agent: the
opponents are prompted too, in turns of their own or together with the agents of the seat, and their prompts are marked
(`Prompt.rival`). In training an earlier version of the policy replies to these; their turns are not learned from.

**Curriculum.** A task's curriculum is a tuple of `CurriculumStage`s, the easiest first; a single one if training always
draws from the same episodes.

**Determinism.** All randomness comes from the task id; an environment never reads the clock and never prints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from castaway.errors import CastawayError

HELD_OUT_START = 1_000_000_000
"""The first task id that no training stage can draw."""

BLOCK_IDS = 1_000_000
"""Number of task ids in a block, of a task that uses all ids; one that uses fewer has as many blocks, of fewer ids."""
AUDIT_BLOCKS = 1000
"""The first block of held-out ids that is kept for audits; below it, each seed plays a block of its own."""
SEEDS_A_BLOCK = 10
"""The number of seeds whose blocks are different, see `held_out_block`."""

SELF_PLAY = "self"
"""The seat in which the caller plays the opponents as well."""

Severity = Literal["form", "unknown", "forbidden", "impossible"]
"""Why a text is not a legal action. The teacher sets the penalty by it (`castaway.teacher.rules.PRICES`):

- `form`: an action of the game, written in the wrong form;
- `unknown`: not an action of the game;
- `forbidden`: an action that this player may not take at all, or not at this time, whatever the situation;
- `impossible`: an action that this player may take, but not in this situation.
"""

Message = dict[str, str]
"""A chat message: `role` (system, user, assistant) and `content`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an action is not legal."""

    severity: Severity
    sentence: str
    """One short sentence, which a teacher can quote."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one agent is shown in one turn."""

    agent: str
    role: str
    """The role of the agent (colonist, traitor, player ...); advantages can be normalised within each role."""
    messages: tuple[Message, ...]
    """The chat messages that a language model is shown."""
    observation: Any
    """The structure that the messages are rendered from: everything that the agent knows, and nothing else."""
    rival: bool = False
    """Whether the agent is an opponent in self-play; its turns are not learned from."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended."""

    success: bool
    """Whether the seat that was played reached its aim."""
    ending: str
    """How the episode ended, in a few words."""
    details: Mapping[str, float] = field(default_factory=dict)
    """More numbers by name, for reports and curves. One named `score`, from 0 to 1, says how good the ending was: the
    worse of two failures is replayed more often."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Categories by name, which reports group episodes by."""


@dataclass(frozen=True, slots=True)
class Played:
    """The result of a finished episode, for reports."""

    task_id: int
    seat: str
    outcome: Outcome
    turns: int
    """Number of replies in the episode."""
    invalid: int
    """Number of these replies without a legal action."""


@dataclass(frozen=True, slots=True)
class CurriculumStage:
    """A stage of the curriculum: the episodes to draw from, and when to change to another stage."""

    name: str
    task_ids: Sequence[int]
    """Training ids, drawn with the same probability; a `range` is enough and takes no memory."""
    seats: tuple[str, ...]
    """The seats in which the episodes are played, in rotation."""
    threshold: float = 1.0
    """Success rate over a full window from which on training moves to the next stage, 0 to 1."""
    floor: float = 0.0
    """Success rate over a full window below which training returns to the previous stage, 0 to 1."""
    window: int = 100
    """Number of most recent episodes that `threshold` and `floor` are compared with."""


class Rules(Protocol):
    """Which typed actions are legal, decided from an observation alone."""

    def refusal(self, observation: Any, action: str) -> Refusal | None:
        """Why `action` is not legal for this observation, or None if it is."""
        ...

    def legal_actions(self, observation: Any) -> tuple[str, ...]:
        """The legal typed actions in a fixed order, maybe without free text (talk); empty only if any text is legal."""
        ...

    def repair(self, observation: Any, text: str) -> str:
        """The legal action closest to what the author of `text` probably meant; accepts any string."""
        ...

    def reason(self, observation: Any, action: str) -> str:
        """A plausible reason for a legal action: a few words on one line, never empty."""
        ...

    def blunder(self, observation: Any, action: str) -> str:
        """One sentence on why a legal action is a strategic mistake, given what the agent knows; empty if it is not."""
        ...


class TextEnvironment(ABC):
    """A game played in text; the module docstring states the contract."""

    name: str
    """The task's name."""
    agents: tuple[str, ...]
    """The names of all agents, in a fixed order."""
    seats: tuple[str, ...]
    """The names of the seats that a caller can play."""
    idle: str
    """A typed action that is always legal and does nothing."""
    rules: Rules

    @abstractmethod
    def reset(self, task_id: int, seat: str) -> None:
        """Start the episode of `task_id`; the caller plays the agents of `seat`.

        Raises:
            ValueError: the id is negative or the seat unknown.
        """

    @abstractmethod
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts of the agents that must act now: at least one, in self-play also opponents; none after `done`."""

    @abstractmethod
    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        """Execute typed actions (agent to action) and return each agent's reward since the last step.

        Raises:
            ValueError: the episode is over.
        """

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the episode has ended."""

    @abstractmethod
    def outcome(self) -> Outcome:
        """How the episode ended; valid only after `done`."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """The complete state, hidden parts included, as data that JSON can hold; later steps do not change it.

        It is for replays and is never shown to an agent.
        """


def block_of(seed: int) -> int:
    """Where the ids of a seed begin in a range of 100,000,000 task ids; the blocks of seeds 0 to 99 do not overlap."""
    return seed % 100 * BLOCK_IDS


def held_out_block(block: int, seed: int) -> int:
    """The number of the block that a seed evaluates on: `block` itself for seed 1, the next one for seed 2, and so on.

    Seeds whose last digits are equal share a block.
    """
    return block + (seed - 1) % SEEDS_A_BLOCK


def place_of_block(block: int) -> tuple[int, int]:
    """What is added to the training ids for a block of held-out ids, and the place at which the block begins.

    Blocks 0 to 999 add `HELD_OUT_START`, the next thousand twice that, and so on. So two blocks have no id in common if
    no more is played of one than it has.
    """
    group, number = divmod(block, HELD_OUT_START // BLOCK_IDS)
    return (group + 1) * HELD_OUT_START, number * BLOCK_IDS


def held_out_ids(task_ids: Sequence[int], block: int, count: int) -> list[int]:
    """The first `count` ids of a block of held-out ids.

    A held-out id is a training id plus a constant, so both have the same distribution of games.

    Args:
        task_ids: all training ids of the task, in order.
        block: the number of the block.
        count: if the block has fewer, the ids of the next one follow without a gap.

    Raises:
        CastawayError: there are fewer than `count` ids from the start of the block on.
    """
    shift, place = place_of_block(block)
    return [shift + task_id for task_id in _row(task_ids, place, count, f"from the start of block {block} on")]


def ids_in_a_row(task_ids: Sequence[int], start: int, count: int) -> list[int]:
    """`count` consecutive ids of a task, starting at the relative position that `start` has among all training ids.

    Two pipeline stages with different values of `start` take different ids of a task if it has enough. With few, the
    ids of the first reach into those of the second (`castaway.tasks.shortage` finds that).

    Raises:
        CastawayError: there are fewer than `count` ids from there on.
    """
    return _row(task_ids, start, count, f"from {start / HELD_OUT_START:.1%} of the way on")


def _row(task_ids: Sequence[int], start: int, count: int, where: str) -> list[int]:
    """`count` consecutive ids from the relative position of `start` on, which `where` describes."""
    first = index_at(start, len(task_ids))
    left = max(0, len(task_ids) - first)
    if count > left:
        advice = f"start below {HELD_OUT_START:,}"
        if start < HELD_OUT_START:
            advice = f"give it at least {enough(count, HELD_OUT_START - start):,}, or ask for fewer"
        raise CastawayError(
            f"the task has {len(task_ids):,} ids, {left:,} of them {where}, where {count:,} are asked for; {advice}"
        )
    return [task_ids[first + number] for number in range(count)]


def index_at(place: int, size: int) -> int:
    """The index at which a place, a number of `HELD_OUT_START`, lies among `size` ids."""
    return place * size // HELD_OUT_START


def enough(count: int, room: int) -> int:
    """The number of ids of a task with which there are `count` between two places, however positions are rounded.

    Args:
        count: the number of ids.
        room: the distance of the two places, of which there are `HELD_OUT_START` in all.
    """
    return -(-count * HELD_OUT_START // room)


def is_held_out(task_id: int) -> bool:
    """Whether a task id is reserved for evaluation."""
    return task_id >= HELD_OUT_START
