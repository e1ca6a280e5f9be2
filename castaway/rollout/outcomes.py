"""What became of the episodes of an evaluation: the figures of each policy, and a line for each player and episode.

Two models that played the same ids can be compared in pairs, also long after one of them was replaced.
"""

import json
from collections.abc import Iterable, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from castaway.config.errors import CastawayError
from castaway.rollout.trajectory import Episode
from castaway.tasks.environment import Message
from castaway.tasks.intervals import clustered_mean, proportion
from castaway.tasks.task import Task

CHOSEN_FROM = ("sft", "final")
"""The policies that also play with best-of-n sampling: before reinforcement learning, and in the end."""
FILE = "outcomes.jsonl"
"""Its name, in `data/RUN/evaluate`."""


@dataclass(frozen=True, slots=True)
class Result:
    """One episode of one player."""

    player: str
    """A policy, as in `metrics/evaluate.json`."""
    task_id: int
    seat: str
    success: bool
    turns: int
    invalid: int
    """Number of turns whose reply was no legal action."""


def write_outcomes(path: Path, results: Iterable[Result]) -> None:
    """Write one line for each result, keys in alphabetical order."""
    path.write_text("".join(f"{json.dumps(asdict(one), sort_keys=True)}\n" for one in results), "utf-8")


def read_outcomes(text: str, player: str, seat: str) -> dict[int, bool]:
    """Task id to success, of one player in one seat; CastawayError if a line of the text is of another format."""
    successes = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        try:
            row = Result(**json.loads(line))
        except (ValueError, TypeError):
            raise CastawayError(f"{FILE} is damaged: line {number} holds {line[:40]!r}") from None
        if (row.player, row.seat) == (player, seat):
            successes[row.task_id] = row.success
    return successes


def outcomes_path(root: Path, run: str) -> Path:
    """Where the evaluation of a run writes them."""
    return root / "data" / run / "evaluate" / FILE


def figures_of(task: Task[Any], episodes: Sequence[Episode]) -> dict[str, Any]:
    """All metrics of one policy: those of every task, and the task's own."""
    played = [episode for episode in episodes if episode.seat == task.evaluation_seats[0]]
    cut = [any(turn.cut_off for trajectory in e.trajectories for turn in trajectory.turns) for e in played]
    own = task.report([episode.outcome for episode in played], cut)
    return {**_figures(episodes, task.evaluation_seats), **own}


def _figures(episodes: Sequence[Episode], seats: Sequence[str]) -> dict[str, Any]:
    """The metrics of one policy; those of seats other than the first carry the seat's name as a prefix."""
    figures: dict[str, Any] = {}
    for seat in seats:
        prefix = "" if seat == seats[0] else f"{seat}_"
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


def text_of(messages: Sequence[Message]) -> int:
    """A number for the words of a prompt, the same within one process."""
    return hash(tuple(message["content"] for message in messages))


def situation_figures(episodes: Sequence[Episode], seat: str, demonstrated: Set[int]) -> dict[str, Any]:
    """Success in a seat, by whether every prompt of the episode stands word for word in the demonstrations.

    Empty if that is so in no episode: then every figure of the policy is of new situations.
    """
    known: dict[bool, list[bool]] = {True: [], False: []}
    for episode in episodes:
        if episode.seat == seat:
            turns = (turn for trajectory in episode.trajectories for turn in trajectory.turns)
            known[all(text_of(turn.messages) in demonstrated for turn in turns)].append(episode.outcome.success)
    if not known[True]:
        return {}
    names = {"success_in_known_situations": known[True], "success_in_new_situations": known[False]}
    shares = {name: proportion(sum(wins), len(wins)).entries(name) for name, wins in names.items()}
    return {
        "episodes_in_new_situations": len(known[False]),
        **{k: v for one in shares.values() for k, v in one.items()},
    }


def unseen_figures(episodes: Sequence[Episode], seats: Sequence[str]) -> dict[str, Any]:
    """The metrics of one policy in situations unlike those of training, with a prefix."""
    return {f"unseen_{name}": value for name, value in _figures(episodes, seats).items()} if episodes else {}
