"""The metrics of a rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from castaway.rl.kl import kl_estimate
from castaway.rl.ranks import Ranks
from castaway.rl.rewards import Sample
from castaway.rl.trajectory import Episode


def summarise(
    ranks: Ranks,
    episodes: Sequence[Episode],
    samples: Sequence[Sample],
    scores: Sequence[float],
    outcomes: Mapping[str, list[float]],
) -> dict[str, float]:
    """The metrics of a rollout, as means over all processes; those of whole episodes are left out if none has ended.

    Args:
        ranks: the processes.
        episodes: this process's, that have ended.
        samples: this process's.
        scores: the reward model's, one for each sample.
        outcomes: further figures of the episodes of the main seat.
    """
    turns = [sample.turn for sample in samples]
    mine = {
        **outcomes,
        "mean_return": [sum(turn.reward for turn in t.turns) for episode in episodes for t in episode.trajectories],
        "invalid_rate": [float(not turn.valid) for turn in turns],
        "penalty": [turn.penalty for turn in turns],
        "reward_model": list(scores),
        # k3: its mean over drawn tokens is never negative, as no KL divergence is.
        "reference_kl": [
            value
            for one in samples
            for value in kl_estimate(torch.tensor(one.own), torch.tensor(one.reference), "k3").tolist()
        ],
        "reply_tokens": [float(len(turn.reply_tokens)) for turn in turns],
    }
    everybody = ranks.gather({name: (sum(values), len(values)) for name, values in mine.items()})
    sums = {name: [sum(part[name][k] for part in everybody) for k in (0, 1)] for name in mine}
    means = {name: total / count for name, (total, count) in sums.items() if count}
    return {**means, "turns": float(sums["penalty"][1])}
