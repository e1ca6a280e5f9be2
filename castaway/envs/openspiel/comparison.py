"""Compares policies with a random player and a long tree search on the same episodes: the share of the gap they close.

    gap closed = (success of the policy - of the random player) / (success of the search - of the random player)

It is computed for each game and each seat; the figure over all games is the mean of the games. The search sees the true
state, as all searches of OpenSpiel do, so in games with hidden cards no fair player can reach it.

Beside it stands GTBench's normalised relative advantage over the opponent (Duan et al. 2024, arXiv:2402.12348):

    (sum of the player's results - sum of the opponent's) / (sum of the absolute values of both)

with 1 for a game that is won, -1 for a lost one and 0 for a draw: from -1 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from castaway.envs.openspiel.ids import episode_of
from castaway.metrics.intervals import Interval, clustered_mean, proportion
from castaway.tasks.environment import Played

FLOOR, CEILING = "random", "mcts-100"
"""The two players that are compared with; their success rates are 0 and 1 on the scale of gap closed."""
_RESAMPLES = 2000
"""Number of bootstrap samples."""

Numbers = Any
"""A numpy array."""


def comparison(played: Mapping[str, Sequence[Played]], main_seat: str) -> dict[str, Any]:
    """Figures by player, and under `games` by game and player; for a seat other than the main one the seat is a prefix.

    Args:
        played: player to its results, on the same episodes in the same order; `FLOOR` and `CEILING` are among them.
        main_seat: the seat whose figures have no prefix.

    Returns:
        For each player `relative_advantage` and for each policy `gap_closed`, the means over the games; for `FLOOR` and
        `CEILING` the figures that evaluation reports of a policy; under `games`, by game and player, `episodes`,
        `invalid_rate`, `success_rate`, `gap_closed` and `relative_advantage`. Shares have 95 % intervals in `_low` and
        `_high`; those of `gap_closed` are bootstrap intervals, with the same resampled episodes for all players.
    """
    seats = list(dict.fromkeys(one.seat for one in played[FLOOR]))
    names = sorted({_game(one) for one in played[FLOOR]})
    games: dict[str, dict[str, dict[str, Any]]] = {name: {player: {} for player in played} for name in names}
    overall: dict[str, dict[str, Any]] = {player: {} for player in played}
    generator = numpy.random.default_rng(0)
    for seat in seats:
        prefix = "" if seat == main_seat else f"{seat}_"
        shares: dict[str, list[tuple[float, Numbers]]] = {player: [] for player in played}
        for name in names:
            rows = {
                player: [one for one in all_rows if (one.seat, _game(one)) == (seat, name)]
                for player, all_rows in played.items()
            }
            won = {player: [one.outcome.success for one in found] for player, found in rows.items()}
            gaps = _gaps(won, generator)
            for player, found in rows.items():
                games[name][player] |= {**_rates(found, prefix), f"{prefix}relative_advantage": _advantage(found)}
                shares[player].append(gaps[player])
                if player not in (FLOOR, CEILING):
                    games[name][player] |= _interval(*gaps[player]).entries(f"{prefix}gap_closed")
        for player, found_shares in shares.items():
            everywhere = [games[name][player][f"{prefix}relative_advantage"] for name in names]
            overall[player][f"{prefix}relative_advantage"] = sum(everywhere) / len(everywhere)
            if player in (FLOOR, CEILING):
                overall[player] |= _figures([one for one in played[player] if one.seat == seat], prefix)
                continue
            values, resampled = zip(*found_shares, strict=True)
            gap = _interval(sum(values) / len(values), sum(resampled) / len(resampled))
            overall[player] |= gap.entries(f"{prefix}gap_closed")
    return {**overall, "games": games}


def _game(played: Played) -> str:
    return episode_of(played.task_id).played.name


def _gaps(
    successes: Mapping[str, Sequence[bool]], generator: numpy.random.Generator
) -> dict[str, tuple[float, Numbers]]:
    """For each player the share of the gap that it closes, and the same for each bootstrap sample (shape: samples).

    It is 0 if there is no gap. Every player gets the same resampled episodes, since the comparison is paired.
    """
    won = {player: numpy.array(found, dtype=float) for player, found in successes.items()}
    count = len(won[FLOOR])
    drawn = generator.integers(count, size=(_RESAMPLES, count))
    floor, gap = won[FLOOR].mean(), won[CEILING].mean() - won[FLOOR].mean()
    floors = won[FLOOR][drawn].mean(1)
    gaps = won[CEILING][drawn].mean(1) - floors
    wide = numpy.where(gaps > 0, gaps, 1.0)
    return {
        player: (
            float((found.mean() - floor) / gap) if gap > 0 else 0.0,
            numpy.where(gaps > 0, (found[drawn].mean(1) - floors) / wide, 0.0),
        )
        for player, found in won.items()
    }


def _advantage(found: Sequence[Played]) -> float:
    """The normalised relative advantage; 0 if every game was drawn."""
    results = [2.0 * one.outcome.details["score"] - 1.0 for one in found]
    return sum(results) / (sum(map(abs, results)) or 1.0)


def _interval(value: float, resampled: Numbers) -> Interval:
    low, high = numpy.quantile(resampled, (0.025, 0.975))
    return Interval(value, float(low), float(high))


def _figures(found: Sequence[Played], prefix: str) -> dict[str, Any]:
    """The figures that evaluation reports of a policy."""
    return {
        **_rates(found, prefix),
        f"{prefix}turns": sum(one.turns for one in found),
        **clustered_mean([[one.outcome.details["score"]] for one in found]).entries(f"{prefix}mean_return"),
    }


def _rates(found: Sequence[Played], prefix: str) -> dict[str, Any]:
    """Number of episodes, share of invalid replies, and success rate."""
    invalid = [[1.0] * one.invalid + [0.0] * (one.turns - one.invalid) for one in found]
    return {
        f"{prefix}episodes": len(found),
        **clustered_mean(invalid).entries(f"{prefix}invalid_rate"),
        **proportion(sum(one.outcome.success for one in found), len(found)).entries(f"{prefix}success_rate"),
    }
