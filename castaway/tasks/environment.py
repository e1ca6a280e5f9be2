"""The contract of a text environment.

Implement `TextEnvironment` and its `Rules` and every part of Castaway (datasets, teachers, rollouts, PPO,
evaluation) can use your game. `castaway.tools.checker.check_environment` tests an implementation against this page.

**An episode.** `reset(task_id)` starts a deterministic episode: the same id, seat and typed actions give the same
prompts and rewards, byte for byte, on every machine. An environment never reads the clock and never prints. Until
`done`, `prompts()` returns a prompt for each agent that must act now; they do not see each other's replies of the same
turn. The caller (a policy, a teacher, a person) chooses a *typed action* for each of them, and `step(actions)` executes
these; a missing or illegal action is replaced by `idle`. Every episode ends, even if all agents stay idle.

**No leaks.** A prompt's messages are a function of its `observation`, and the observation holds only what its agent
may know. Legality is decided from the observation as well, so neither prompts nor refusals can reveal hidden state.

**Task ids.** Any id of 0 or more is an episode. Ids below `HELD_OUT_START` are for training, the others for
evaluation; no training stage may draw one of those. Held-out ids lie in numbered blocks (`held_out_ids`): each release
is asked one that nothing was asked before, and blocks from `AUDIT_BLOCKS` on are for whoever audits the project.

**Seats.** After `reset(task_id, seat)` the caller plays the agents of that seat; the environment plays all others. In
the seat `self` (`SELF_PLAY`), which an environment may have, it plays none: the opponents are prompted too, marked
`Prompt.opponent`. In training an earlier version of the policy replies to these; their turns are not learned from.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Literal, Protocol

from castaway.config.errors import CastawayError

HELD_OUT_START = 1_000_000_000  # the first task id that no training stage can draw

BLOCK_IDS = 1_000_000  # task ids in a block, of a task that uses all ids; of one that uses fewer, accordingly fewer
AUDIT_BLOCKS = 1000  # the first block of held-out ids that is kept for audits
SEEDS_A_BLOCK = 10  # the number of seeds whose blocks are different, see `held_out_block`

SELF_PLAY = "self"  # the seat in which the caller plays the opponents as well

Severity = Literal["form", "unknown", "forbidden", "impossible"]
"""Why a text is not a legal action. The teacher sets the penalty by it (`castaway.teacher.rules.PENALTIES`):

- `form`: an action of the game, written in the wrong form;
- `unknown`: not an action of the game;
- `forbidden`: an action that this player may not take at all, or not at this time, whatever the situation;
- `impossible`: an action that this player may take, but not in this situation.
"""

Message = dict[str, str]  # `role` (system, user, assistant) and `content`


@dataclass(frozen=True, slots=True)
class Refusal:
    severity: Severity
    sentence: str  # one short sentence, which a teacher can quote


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one agent is shown in one turn."""

    agent: str
    role: str  # the role of the agent (colonist, traitor, player ...); advantages can be normalised within each role
    messages: tuple[Message, ...]  # the chat messages that a language model is shown
    observation: Any  # what the messages are rendered from: everything that the agent knows, and nothing else
    opponent: bool = False  # whether the agent is an opponent in self-play; its turns are not learned from


@dataclass(frozen=True, slots=True)
class Outcome:
    success: bool  # whether the seat that was played reached its aim
    ending: str  # how the episode ended, in a few words
    details: Mapping[str, float] = field(default_factory=dict)
    """By name, for reports and curves. Of two failures, that with the lower `score` (0 to 1) is replayed more."""
    labels: Mapping[str, str] = field(default_factory=dict)  # categories by name, which reports group episodes by


@dataclass(frozen=True, slots=True)
class Played:
    task_id: int
    seat: str
    outcome: Outcome
    turns: int  # number of replies in the episode
    invalid: int  # number of these replies without a legal action


@dataclass(frozen=True, slots=True)
class CurriculumStage:
    """A stage of the curriculum: the episodes to draw from, and when to change to another stage."""

    name: str
    task_ids: Sequence[int]  # training ids, drawn with the same probability; a `range` is enough and takes no memory
    seats: tuple[str, ...]  # the seats in which the episodes are played, each in its share of this list
    threshold: float = 1.0  # success rate over a full window from which on training moves to the next stage, 0 to 1
    floor: float = 0.0  # success rate over a full window below which training returns to the previous stage, 0 to 1
    window: int = 100  # number of most recent episodes that `threshold` and `floor` are compared with


class Rules(Protocol):
    """Which typed actions are legal, decided from an observation alone."""

    def refusal(self, observation: Any, action: str) -> Refusal | None:
        """Why `action` is not legal for this observation, or None if it is."""

    def legal_actions(self, observation: Any) -> tuple[str, ...]:
        """The legal typed actions in a fixed order, maybe without free text (talk); empty only if any text is legal."""

    def repair(self, observation: Any, text: str) -> str:
        """The legal action closest to what the author of `text` probably meant; accepts any string."""

    def reason(self, observation: Any, action: str) -> str:
        """A plausible reason for a legal action: a few words on one line, never empty."""

    def blunder(self, observation: Any, action: str) -> str:
        """One sentence on why a legal action is a strategic mistake, given what the agent knows; empty if it is not."""


class ChoiceRules:
    """`Rules` from a list: an action is legal if it is in the list, or if it is the idle action."""

    def __init__(
        self,
        legal: Callable[[Any], Sequence[str]],
        idle: str,
        reason: Callable[[Any, str], str] = lambda observation, action: action.lower(),
        blunder: Callable[[Any, str], str] = lambda observation, action: "",
    ) -> None:
        """Make the rules of a game; `reason` and `blunder` are those of `Rules`.

        `legal` returns the legal actions for an observation, never none; `idle`, which it leaves out, does nothing.
        """
        self._legal, self._idle, self.reason, self.blunder = legal, idle, reason, blunder

    def refusal(self, observation: Any, action: str) -> Refusal | None:
        legal = self._legal(observation)
        if action == self._idle or action in legal:
            return None
        # With a first word from the list the reply shows that the form is understood: "impossible", not "unknown".
        known = action.split(" ", 1)[0] in {one.split(" ", 1)[0] for one in legal}
        return Refusal("impossible" if known else "unknown", f"Answer with one of these: {', '.join(legal[:10])}.")

    def legal_actions(self, observation: Any) -> tuple[str, ...]:
        return tuple(self._legal(observation))

    def repair(self, observation: Any, text: str) -> str:
        """The listed action most similar to the text; the first one if several are equally similar."""
        return max(self._legal(observation), key=lambda one: SequenceMatcher(None, one, text[:200], False).ratio())


class TextEnvironment(ABC):
    """A game played in text; the module docstring states the contract."""

    name: str  # the task's name
    agents: tuple[str, ...]  # the names of all agents, in a fixed order
    seats: tuple[str, ...]  # the names of the seats that a caller can play
    idle: str  # a typed action that is always legal and does nothing
    rules: Rules

    @abstractmethod
    def reset(self, task_id: int, seat: str) -> None:
        """Start an episode, in which the caller plays `seat`; ValueError for a negative id or an unknown seat."""

    @abstractmethod
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts of the agents that must act now: at least one, in self-play also opponents; none after `done`."""

    @abstractmethod
    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        """Execute typed actions (agent to action), and return each agent's reward since the last step."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the episode has ended."""

    @abstractmethod
    def outcome(self) -> Outcome:
        """How the episode ended; valid only after `done`."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """The complete state, hidden parts included, for replays: as JSON can hold it, and unchanged by later steps."""


def block_of(seed: int) -> int:
    """Where the ids of a seed begin in a range of 100,000,000 task ids; the blocks of seeds 0 to 99 do not overlap."""
    return seed % 100 * BLOCK_IDS


def held_out_block(block: int, seed: int) -> int:
    """The block that a seed evaluates on: `block` itself for seed 1, the next for seed 2, the first again for 11."""
    return block + (seed - 1) % SEEDS_A_BLOCK


def place_of_block(block: int) -> tuple[int, int]:
    """What a block adds to the training ids, and the place at which it begins.

    Blocks 0 to 999 add `HELD_OUT_START`, the next thousand twice that: no two have an id in common.
    """
    group, number = divmod(block, HELD_OUT_START // BLOCK_IDS)
    return (group + 1) * HELD_OUT_START, number * BLOCK_IDS


def held_out_ids(task_ids: Sequence[int], block: int, count: int) -> list[int]:
    """The first `count` ids of a block: those of `task_ids` plus a constant, so that the games are distributed alike.

    CastawayError if there are fewer from the start of the block on.
    """
    shift, place = place_of_block(block)
    return [shift + task_id for task_id in _row(task_ids, place, count, f"from the start of block {block} on")]


def ids_in_a_row(task_ids: Sequence[int], start: int, count: int) -> list[int]:
    """`count` ids in a row, from where `start` lies among all training ids; CastawayError if there are fewer."""
    return _row(task_ids, start, count, f"from {start / HELD_OUT_START:.1%} of the way on")


def _row(task_ids: Sequence[int], start: int, count: int, where: str) -> list[int]:
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
    return -(-count * HELD_OUT_START // room)


def is_held_out(task_id: int) -> bool:
    return task_id >= HELD_OUT_START
