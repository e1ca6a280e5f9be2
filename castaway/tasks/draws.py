"""Where each stage of a run begins to draw ids, so that none sees the episodes that another one is measured on.

A place is a number below `HELD_OUT_START`, and stands for the same share of a task's training ids (`ids_in_a_row`): the
demonstrations begin at a fifth of them, however many there are. Places are far apart for a task that uses all ids.
Whether a task with few has enough of them is said by `castaway.tools.check_task`.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from castaway.config.sections import DatasetParams, EvaluateParams
from castaway.tasks.environment import HELD_OUT_START, block_of

Use = Literal["base text", "demonstrations", "held-out pairs", "validation"]
"""What training ids are drawn for. The pairs of training are of the same episodes as the demonstrations."""

PLACES: Mapping[Use, int] = {
    "base text": 0,
    "demonstrations": 200_000_000,
    "held-out pairs": 400_000_000,
    "validation": 950_000_000,
}
"""The first place of each use, before the offset of the seed. From 900,000,000 on: for choosing settings."""


def place_of(use: Use, seed: int) -> int:
    """The place at which a seed begins; each of 100 seeds has its own, in validation each of 50."""
    return PLACES[use] + block_of(seed) % (HELD_OUT_START - PLACES[use])


def held_out_pair_episodes(params: DatasetParams) -> int:
    """The number of episodes that the held-out pairs are made from: as many for a pair as in training."""
    return max(1, params.episodes * params.held_out_pairs // params.pairs)


def evaluation_episodes(params: EvaluateParams, seats: Sequence[str]) -> dict[str, int]:
    """The number of held-out ids that are played in each seat; all seats play the same ids, from the first one on."""
    return {seat: params.episodes if seat == seats[0] else params.further_episodes for seat in seats}
