"""A buffer of failed episodes, which are played again until they are mastered.

An episode is identified by its task id and seat. The lower its score was, the more often it is drawn.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from random import Random
from typing import Any

Task = tuple[int, str]
"""A task id, and the seat that was played."""


@dataclass(slots=True)
class _Failure:
    severity: float
    """1 - score, when it was last failed."""
    streak: int = 0
    """Successes since then."""


class FailureBuffer:
    """Failed episodes, each of them once, the oldest first."""

    def __init__(self, capacity: int, mastery: int) -> None:
        """Nothing has failed yet.

        Args:
            capacity: at most so many are kept; the oldest makes room.
            mastery: successes in a row after which an episode leaves.

        Raises:
            ValueError: one of them is less than 1.
        """
        if capacity < 1 or mastery < 1:
            raise ValueError(f"capacity is {capacity} and mastery {mastery}, expected 1 or more of each")
        self._capacity, self._mastery = capacity, mastery
        self._kept: dict[Task, _Failure] = {}
        self.mastered = 0
        """Episodes that have left."""

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, task: object) -> bool:
        return task in self._kept

    def draw(self, random: Random, playing: Container[Task] = ()) -> Task | None:
        """One of the failures, with a chance in proportion to 1 - score; None if all there are stand in `playing`."""
        waiting = [(task, kept.severity) for task, kept in self._kept.items() if task not in playing]
        if not waiting:
            return None
        tasks, severities = zip(*waiting, strict=True)
        return tasks[random.choices(range(len(tasks)), severities)[0]]

    def report(self, task: Task, success: bool, score: float) -> None:
        """Take in an episode that has ended: a failure is kept, and one that was mastered is removed.

        Args:
            task: the episode.
            success: whether it was one.
            score: from 0 to 1; a failure is drawn in proportion to 1 - score.

        Raises:
            ValueError: the score is out of its range.
        """
        if not 0 <= score <= 1:
            raise ValueError(f"the score of episode {task} is {score}, expected a number from 0 to 1")
        kept = self._kept.get(task)
        if not success and score < 1:
            if kept is None and len(self._kept) == self._capacity:
                del self._kept[next(iter(self._kept))]
            self._kept[task] = _Failure(1 - score)
        elif success and kept is not None:
            kept.streak += 1
            if kept.streak == self._mastery:
                del self._kept[task]
                self.mastered += 1

    def state(self) -> dict[str, Any]:
        """All that is kept, to go on from."""
        kept = [(*task, failure.severity, failure.streak) for task, failure in self._kept.items()]
        return {"kept": kept, "mastered": self.mastered}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned; of more than fit, the newest are kept."""
        rows = state["kept"][-self._capacity :]
        self._kept = {(task_id, seat): _Failure(severity, streak) for task_id, seat, severity, streak in rows}
        self.mastered = state["mastered"]
