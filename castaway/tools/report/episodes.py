"""The saved episodes of a run, the worst and the best of each policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from castaway.datasets.episodes import Row, read_episode
from castaway.metrics.policies import POLICIES
from castaway.tools.replay.moments import Replay, replay_of

FINAL = POLICIES[-1]
SHOWN = {FINAL: 3}
"""Worst and best episodes that are shown of a policy."""
OTHERS = 1
"""The same of every other policy."""


@dataclass(frozen=True)
class Shown:
    """A saved episode."""

    title: str
    success: bool
    replay: Replay


def shown_episodes(folder: Path) -> list[Shown]:
    """The worst and the best episodes of `data/RUN/evaluate`, those of the final policy first.

    Raises:
        CastawayError: a file is not a saved episode.
    """
    policies = sorted({path.parent.name for path in folder.glob("*/*.jsonl")}, key=lambda name: (name != FINAL, name))
    return [one for policy in policies for one in _of_policy(folder / policy)]


def _of_policy(folder: Path) -> Iterator[Shown]:
    """The worst first: a failure is what one wants to see."""
    episodes = sorted((read_episode(path) for path in sorted(folder.glob("*.jsonl"))), key=_rank)
    count = SHOWN.get(folder.name, OTHERS)
    worst = episodes[:count]
    best = episodes[len(worst) :][-count:]
    for word, chosen in (("worst", worst), ("best", best[::-1])):
        for rows in chosen:
            head = rows[0]
            result = "success" if head.get("success") else "failure"
            title = f"{folder.name}, episode {head['task_id']}, among its {word}: {result}, {head.get('ending', '')}"
            yield Shown(title, bool(head.get("success")), replay_of(rows))


def _rank(rows: Sequence[Row]) -> tuple[bool, int, int]:
    """Worse episodes are less: failures, then those with more invalid replies, then the longer ones."""
    head, *moments = rows
    invalid = sum(not said.get("valid") for moment in moments for said in moment["said"].values())
    return bool(head.get("success")), -invalid, -len(moments)
