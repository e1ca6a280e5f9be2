"""The next rollout, played a few rounds at a time while the last one is learned from.

A served teacher thinks while the device learns, and the device learns while the teacher thinks. What is drawn between
two minibatches comes from the weights of that moment, and its log-probabilities were recorded then, so the ratio of PPO
is exact; it begins at most one update away from 1 (in-flight weight updates, as in PipelineRL, Piché et al. 2025).
How many rounds are played when depends on numbers alone, never on the clock: the same is drawn each time.
"""

from __future__ import annotations

from castaway.rl.continuing import Harvest
from castaway.rl.rollout import Rounds
from castaway.rl.trajectory import Episode, Trajectory


class Coming:
    """A rollout in progress."""

    def __init__(self, rounds: Rounds, lanes: int) -> None:
        """Begin the first round of each lane, so that the teacher has something to do."""
        self._rounds, self._lanes = rounds, lanes
        self._episodes: list[Episode] | None = None
        self._each = 1
        self._play(lanes)

    def expect(self, last: Harvest, pauses: int) -> None:
        """Spread as many rounds as the last rollout had over so many pauses."""
        longest = max((len(trajectory.turns) for trajectory in last.trajectories), default=1)
        self._each = -(-longest * self._lanes // max(1, pauses))

    def advance(self) -> None:
        """Use one pause."""
        self._play(self._each)

    def harvest(self) -> Harvest:
        """Play what is left."""
        while self._episodes is None:
            self._play(1)
        return harvest_of(self._episodes)

    def _play(self, count: int) -> None:
        for _ in range(count):
            if self._episodes is not None:
                return
            try:
                next(self._rounds)
            except StopIteration as end:
                self._episodes = end.value


def harvest_of(episodes: list[Episode]) -> Harvest:
    """Whole episodes as a harvest."""
    trajectories: list[Trajectory] = [trajectory for episode in episodes for trajectory in episode.trajectories]
    return Harvest(trajectories, episodes)
