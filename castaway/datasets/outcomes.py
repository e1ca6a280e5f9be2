"""What became of every episode of an evaluation: `outcomes.jsonl`, one line for each player and episode.

Two models that played the same ids can be compared in pairs, also long after one of them was replaced.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from castaway.errors import CastawayError

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


def read_outcomes(text: str, player: str, seat: str) -> dict[int, bool]:
    """Task id to success, of one player in one seat.

    Args:
        text: the content of the file.
        player: the policy.
        seat: the seat.

    Raises:
        CastawayError: a line is not of this format.
    """
    found = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        try:
            row = Result(**json.loads(line))
        except (ValueError, TypeError):
            raise CastawayError(f"{FILE} is damaged: line {number} holds {line[:40]!r}") from None
        if (row.player, row.seat) == (player, seat):
            found[row.task_id] = row.success
    return found


def outcomes_path(root: Path, run: str) -> Path:
    """Where the evaluation of a run writes them."""
    return root / "data" / run / "evaluate" / FILE
