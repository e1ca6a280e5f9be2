"""The metrics of one policy, from the episodes that it has played."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from castaway.metrics.intervals import clustered_mean, proportion
from castaway.rl.trajectory import Episode
from castaway.tasks.task import Task


def figures_of(task: Task[Any], episodes: Sequence[Episode]) -> dict[str, Any]:
    """All metrics of one policy: those of every task, and the task's own."""
    return {**_figures(episodes, task.evaluation_seats), **_own_figures(task, episodes)}


def _figures(episodes: Sequence[Episode], seats: Sequence[str]) -> dict[str, Any]:
    """The metrics of one policy; those of seats other than the first carry the seat's name as a prefix."""
    figures: dict[str, Any] = {}
    for seat in seats:
        prefix = _prefix(seat, seats)
        played = [episode for episode in episodes if episode.seat == seat]
        turns = [[t for trajectory in e.trajectories for t in trajectory.turns] for e in played]
        returns = [[sum(t.reward for t in trajectory.turns) for trajectory in e.trajectories] for e in played]
        # Turns of one episode depend on each other, so their interval resamples whole episodes.
        invalid = clustered_mean([[float(not turn.valid) for turn in episode] for episode in turns])
        wins = proportion(sum(episode.outcome.success for episode in played), len(played))
        figures |= {
            f"{prefix}episodes": len(played),
            f"{prefix}turns": sum(len(episode) for episode in turns),
            **invalid.entries(f"{prefix}invalid_rate"),
            **wins.entries(f"{prefix}success_rate"),
            **clustered_mean(returns).entries(f"{prefix}mean_return"),
        }
    return figures


def unseen_figures(episodes: Sequence[Episode], seats: Sequence[str]) -> dict[str, Any]:
    """The metrics of one policy in situations unlike those of training, with a prefix."""
    return {f"unseen_{name}": value for name, value in _figures(episodes, seats).items()} if episodes else {}


def _prefix(seat: str, seats: Sequence[str]) -> str:
    """The prefix of a seat's metrics: empty for the main seat, which is the first."""
    return "" if seat == seats[0] else f"{seat}_"


def _own_figures(task: Task[Any], episodes: Sequence[Episode]) -> dict[str, float]:
    """The additional metrics that the task itself defines, for its main seat."""
    played = [episode for episode in episodes if episode.seat == task.evaluation_seats[0]]
    cut = [any(turn.cut_off for trajectory in e.trajectories for turn in trajectory.turns) for e in played]
    return task.report([episode.outcome for episode in played], cut)
