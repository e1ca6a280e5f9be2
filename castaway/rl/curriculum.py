"""A curriculum that moves on when enough of the last episodes were successes, and back when too few were.

It only counts successes: what a stage consists of is up to the task (`castaway.tasks.environment.CurriculumStage`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from castaway.tasks.environment import CurriculumStage


class Curriculum:
    """Which stage is played now, and how its last episodes went."""

    def __init__(self, stages: Sequence[CurriculumStage]) -> None:
        """Begin with the first stage.

        Raises:
            ValueError: there is no stage, or one whose floor is above its threshold.
        """
        if not stages:
            raise ValueError("a curriculum needs a stage")
        for stage in stages:
            if stage.floor > stage.threshold or not stage.seats or not len(stage.task_ids):
                raise ValueError(f"the stage {stage.name} has no ids, no seats, or a floor above its threshold")
        self.stages = tuple(stages)
        self.number = 0
        """The stage that is played now, from 0."""
        self._window: list[bool] = []

    @property
    def stage(self) -> CurriculumStage:
        """What is played now."""
        return self.stages[self.number]

    @property
    def success_rate(self) -> float | None:
        """Share of successes in the window, full or not; None while it is empty."""
        return sum(self._window) / len(self._window) if self._window else None

    def report(self, number: int, success: bool) -> None:
        """Count an episode that was drawn for the stage `number` and has ended; those of other stages are ignored.

        If the share of successes in a full window is at the threshold or above, the next stage begins, if there is one;
        if it is below the floor, the stage before. A stage begins with an empty window.
        """
        if number != self.number:
            return
        stage = self.stage
        self._window = [*self._window, success][-stage.window :]
        share = sum(self._window) / stage.window
        if len(self._window) < stage.window:
            return
        if share >= stage.threshold:
            self._enter(self.number + 1)
        elif share < stage.floor:
            self._enter(self.number - 1)

    def _enter(self, number: int) -> None:
        if 0 <= number < len(self.stages):
            self.number = number
            self._window = []

    def state(self) -> dict[str, Any]:
        """The stage and its window, to go on from."""
        return {"stage": self.number, "window": list(self._window)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned.

        Raises:
            ValueError: the state is of a curriculum with more stages.
        """
        if state["stage"] >= len(self.stages):
            raise ValueError(f"the state is in stage {state['stage']}, and there are {len(self.stages)} stages")
        self.number = state["stage"]
        self._window = list(state["window"])
