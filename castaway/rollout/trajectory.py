"""The record of a rollout: turns, the trajectory of each agent, and finished episodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from castaway.tasks.environment import Message, Outcome
from castaway.tasks.reply import Reply
from castaway.tasks.verdict import Dispute

HELP = 0.05
"""Share of replaced actions with which a success is still the student's own. If none might be replaced, hardly any
episode of a hundred turns would be: with 2 % of the replies invalid 13 % of them have none, and 98 % at most five."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """One turn of one agent: its prompt, its reply, how that was judged, and what was paid for it."""

    messages: tuple[Message, ...]
    prompt_tokens: list[int]
    reply_tokens: list[int]
    logprobs: list[float]
    """(reply tokens) log-probability in nats of each token at the sampling temperature, from when it was drawn."""
    values: list[float]
    """(reply tokens) value before each token. A sampler without a critic leaves it empty; the trainer fills it in."""
    text: str
    """The reply as text."""
    cut_off: bool = False
    """Whether the reply reached the length limit before a stop token."""
    reply: Reply
    """The parts of the text."""
    action: str
    """What was executed, as typed."""
    valid: bool
    """Whether the executed action was the student's own. If not, its result must not be credited to the reply."""
    penalty: float = 0.0
    """The teacher's, from -5 to 0."""
    critique: str = ""
    reward: float = 0.0
    """Paid by the environment from this turn until the agent's next one."""
    later: list[float] = field(default_factory=list)
    """The parts of it that were paid in the rounds after the turn's own, in which the agent had no turn."""
    reasoning: str = ""
    """The teacher's reasoning, where the student's does not stand; else empty."""
    better: str = ""
    """For a legal action, the one that the teacher would play, if it says so; it may be the same."""
    source: str = "none"
    """Who judged the reply: `rules`, the name of a model, or `none`."""
    dispute: Dispute | None = None
    """Set where a model and the rules judged the reply differently."""


@dataclass(slots=True)
class Trajectory:
    """Turns of one agent in one episode: all of them, those that one batch holds, or those that none was handed yet."""

    task_id: int
    agent: str
    role: str
    turns: list[Turn] = field(default_factory=list)
    bootstrap: float = 0.0
    """Value before the first token of the turn that follows the last one here; 0 if the episode has ended."""
    following: tuple[list[int], list[int]] | None = None
    """That turn's prompt and first token, if its sampler has no critic: the trainer reads `bootstrap`."""
    handed_out: int = 0
    """Turns before these, which are dropped: a game may have thousands. What is counted of them stays."""
    handed_out_replaced: int = 0
    handed_out_reward: float = 0.0

    @property
    def count(self) -> int:
        """All turns so far."""
        return self.handed_out + len(self.turns)

    @property
    def replaced(self) -> int:
        """All turns so far whose action the teacher put in its place."""
        return self.handed_out_replaced + sum(not turn.valid for turn in self.turns)

    @property
    def reward(self) -> float:
        """Paid so far by the environment."""
        return sum((turn.reward for turn in self.turns), start=self.handed_out_reward)

    def hand_out(self, turns: int) -> Trajectory:
        """The first turns as a trajectory of their own; they are dropped here."""
        part = Trajectory(self.task_id, self.agent, self.role, self.turns[:turns])
        self.handed_out += turns
        self.handed_out_replaced += part.replaced
        self.handed_out_reward = sum((turn.reward for turn in part.turns), start=self.handed_out_reward)
        self.turns = self.turns[turns:]
        return part

    def copy(self) -> Trajectory:
        """One that further play does not change. Of a turn, only lists that are never written to are shared."""
        return replace(self, turns=[replace(turn, later=list(turn.later)) for turn in self.turns])


@dataclass(slots=True)
class Episode:
    """One finished episode."""

    task_id: int
    seat: str
    trajectories: list[Trajectory]
    outcome: Outcome
    snapshots: list[dict[str, object]] = field(default_factory=list)
    """Moments for a replay, if they were asked for."""

    @property
    def unaided_success(self) -> bool:
        """Whether the student succeeded by itself: the teacher replaced at most a share `HELP` of its actions."""
        replaced, turns = (sum(getattr(one, name) for one in self.trajectories) for name in ("replaced", "count"))
        return self.outcome.success and replaced <= HELP * turns

    @property
    def score(self) -> float:
        """How good the ending was, from 0 to 1: the environment's own score, or whether it was a success."""
        return self.outcome.details.get("score", float(self.outcome.success))
