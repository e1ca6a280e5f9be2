"""Draws of training episodes by processes that train together.

All hold the same source. Whoever draws, draws one episode for each process and takes its own: so no two play the same.
Where games go on from step to step, one process may end more of them than another and draw more often; afterwards the
others catch up, so that the sources stay alike.
"""

from __future__ import annotations

from castaway.rl.failures import Task
from castaway.rl.ranks import Ranks
from castaway.rl.tasks import TaskSource


class EvenDraws:
    """One process's draws from a source that every process has."""

    def __init__(self, source: TaskSource, ranks: Ranks) -> None:
        """Nothing is drawn yet."""
        self._source, self._ranks = source, ranks
        self._groups: list[list[Task]] = []
        """What was drawn since `even`: for each draw, one episode for each process."""

    def draw(self) -> Task:
        """This process's one of the next few episodes."""
        self._groups.append([self._source.draw() for _ in range(self._ranks.count)])
        return self._ranks.share(self._groups[-1])[0]

    def even(self) -> None:
        """Draw as often as the process that drew most; every process must ask for it, at the end of its rollout."""
        counts = self._ranks.gather(len(self._groups))
        while len(self._groups) < max(counts):
            self.draw()
        for number, group in enumerate(self._groups):
            for count, task in zip(counts, group, strict=True):
                if number >= count:
                    self._source.withdraw(task)
        self._groups = []
