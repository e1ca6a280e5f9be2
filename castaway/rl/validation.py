"""Validation: how the policy does by itself, and the weights that did best.

The curve `success_rate` of training counts episodes that the teacher helped in, replays, and whatever the curriculum
draws. Here the policy plays the same validation ids every few steps, alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from castaway.rl.ranks import Ranks
from castaway.rl.rollout import Policy, play_episodes
from castaway.tasks.environment import TextEnvironment

Weights = dict[str, torch.Tensor]


class Validation:
    """The validation episodes, and the best result so far."""

    def __init__(
        self,
        make: Callable[[], TextEnvironment],
        policy: Policy,
        tasks: Sequence[tuple[int, str]],
        ranks: Ranks,
    ) -> None:
        """Nothing was played yet.

        Args:
            make: makes an environment.
            policy: draws replies from the weights of the moment.
            tasks: what is played each time; no training episode.
            ranks: the processes, which share the episodes.
        """
        self._make, self._policy, self._ranks = make, policy, ranks
        self._tasks = ranks.share(tasks)
        self._best: tuple[float, Weights] | None = None

    def play(self, weights: Weights) -> float:
        """Play all episodes without a teacher, and keep a copy of the weights if none did better before.

        Args:
            weights: those that are trained, as they are now.

        Returns:
            The share of successes, of all processes.
        """
        episodes = play_episodes(self._make, self._tasks, self._policy, teacher=None, parallel=128)
        parts = self._ranks.gather([episode.outcome.success for episode in episodes])
        found = [success for part in parts for success in part]
        rate = sum(found) / len(found)
        # Of equals the later one: it has learned from more.
        if self._best is None or rate >= self._best[0]:
            self._best = rate, {name: weight.detach().clone() for name, weight in weights.items()}
        return rate

    def best(self) -> Weights:
        """The weights that did best.

        Raises:
            ValueError: nothing was played.
        """
        if self._best is None:
            raise ValueError("no validation episode was played")
        return self._best[1]

    def state(self) -> dict[str, Any]:
        """The best result, to go on from; empty before the first one."""
        return {"rate": self._best[0], "weights": self._best[1]} if self._best else {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._best = (state["rate"], state["weights"]) if state else None
