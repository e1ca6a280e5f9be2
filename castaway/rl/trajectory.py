"""What a rollout remembers: turns, and the trajectory of each agent."""

from __future__ import annotations

from dataclasses import dataclass, field

from castaway.tasks.environment import Message, Outcome
from castaway.teacher.base import Dispute


@dataclass(slots=True)
class Turn:
    """One agent's turn to speak."""

    messages: tuple[Message, ...]
    prompt_tokens: list[int]
    reply_tokens: list[int]
    logprobs: list[float]
    """Of the reply's tokens when they were drawn."""
    values: list[float]
    """Before each reply token; empty until somebody has read the reply, if who drew it has no critic."""
    text: str
    """The reply as text."""
    action: str
    """What was executed, as typed."""
    valid: bool
    """Whether it was the student's own; else it was put in its place and must not be credited to its words."""
    penalty: float = 0.0
    critique: str = ""
    reward: float = 0.0
    """Paid by the environment from this turn until the agent's next one."""
    reasoning: str = ""
    """The teacher's, where the student's does not stand."""
    source: str = "none"
    """Who judged it."""
    dispute: Dispute | None = None
    """Where a model and the rules judged differently."""


@dataclass(slots=True)
class Trajectory:
    """Turns of one agent in one episode: all of them, or those that one batch holds."""

    task_id: int
    agent: str
    role: str
    turns: list[Turn] = field(default_factory=list)
    bootstrap: float = 0.0
    """Value of the turn that follows the last one here; 0 if the episode has ended."""


@dataclass(slots=True)
class Episode:
    """One finished episode."""

    task_id: int
    seat: str
    trajectories: list[Trajectory]
    outcome: Outcome
    snapshots: list[dict[str, object]] = field(default_factory=list)
    """Moments for a replay, if they were asked for."""
