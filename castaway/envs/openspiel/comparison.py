"""Compares policies with a random player and a long tree search on the same episodes: the share of the gap they close.

    gap closed = (success of the policy - of the random player) / (success of the search - of the random player)

It is computed for each game and each seat; the figure over all games is the mean of the games. The search sees the true
state, as all searches of OpenSpiel do, so in games with hidden cards no fair player can reach it.

Next to it stands GTBench's normalised relative advantage over the opponent (Duan et al. 2024, arXiv:2402.12348):

    (sum of the player's results - sum of the opponent's) / (sum of the absolute values of both)

with 1 for a game that is won, -1 for a lost one and 0 for a draw: from -1 to 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from castaway.envs.openspiel.ids import episode_of
from castaway.tasks.environment import Played
from castaway.tasks.intervals import Interval, clustered_mean, proportion

FLOOR, CEILING = "random", "mcts-100"  # their success rates are 0 and 1 on the scale of gap closed
_RESAMPLES = 2000  # bootstrap samples

Gap = tuple[float, Any]  # the share that a player closes, and the same for each bootstrap sample


def comparison(played: Mapping[str, Sequence[Played]], main_seat: str) -> dict[str, Any]:
    """Figures by player, and under `games` by game and player; for a seat other than the main one the seat is a prefix.

    `played` holds the results of each player, `FLOOR` and `CEILING` among them, on the same episodes in the same order.
    Shares have 95 % intervals in `_low` and `_high`; those of `gap_closed` are bootstrap intervals, with the same
    resampled episodes for all players.
    """
    names = sorted({_game(one) for one in played[FLOOR]})
    games: dict[str, dict[str, dict[str, Any]]] = {name: {player: {} for player in played} for name in names}
    overall: dict[str, dict[str, Any]] = {player: {} for player in played}
    generator = numpy.random.default_rng(0)
    for seat in dict.fromkeys(one.seat for one in played[FLOOR]):
        prefix = "" if seat == main_seat else f"{seat}_"
        in_seat = {player: [one for one in rows if one.seat == seat] for player, rows in played.items()}
        closed: dict[str, list[Gap]] = {player: [] for player in played}
        for name in names:
            in_game = {player: [one for one in rows if _game(one) == name] for player, rows in in_seat.items()}
            gaps = _gaps({player: [one.outcome.success for one in rows] for player, rows in in_game.items()}, generator)
            for player, rows in in_game.items():
                games[name][player] |= {**_rates(rows, prefix), f"{prefix}relative_advantage": _advantage(rows)}
                closed[player].append(gaps[player])
                if player not in (FLOOR, CEILING):
                    games[name][player] |= _interval(*gaps[player]).entries(f"{prefix}gap_closed")
        for player, rows in in_seat.items():
            everywhere = [games[name][player][f"{prefix}relative_advantage"] for name in names]
            overall[player][f"{prefix}relative_advantage"] = sum(everywhere) / len(everywhere)
            if player in (FLOOR, CEILING):
                scores = clustered_mean([[one.outcome.details["score"]] for one in rows])
                turns = {f"{prefix}turns": sum(one.turns for one in rows)}
                overall[player] |= _rates(rows, prefix) | turns | scores.entries(f"{prefix}mean_return")
            else:
                values, resampled = zip(*closed[player], strict=True)
                gap = _interval(sum(values) / len(values), sum(resampled) / len(resampled))
                overall[player] |= gap.entries(f"{prefix}gap_closed")
    return {**overall, "games": games}


def _game(played: Played) -> str:
    return episode_of(played.task_id).played.name


def _gaps(successes: Mapping[str, Sequence[bool]], generator: numpy.random.Generator) -> dict[str, Gap]:
    """The gap that each player closes, 0 if there is none; the comparison is paired, so all get the same resamples."""
    won = {player: numpy.array(row, dtype=float) for player, row in successes.items()}
    count = len(won[FLOOR])
    drawn = generator.integers(count, size=(_RESAMPLES, count))
    floor, gap = won[FLOOR].mean(), won[CEILING].mean() - won[FLOOR].mean()
    floors = won[FLOOR][drawn].mean(1)
    gaps = won[CEILING][drawn].mean(1) - floors
    wide = numpy.where(gaps > 0, gaps, 1.0)
    return {
        player: (
            float((row.mean() - floor) / gap) if gap > 0 else 0.0,
            numpy.where(gaps > 0, (row[drawn].mean(1) - floors) / wide, 0.0),
        )
        for player, row in won.items()
    }


def _advantage(episodes: Sequence[Played]) -> float:
    results = [2.0 * one.outcome.details["score"] - 1.0 for one in episodes]
    return sum(results) / (sum(map(abs, results)) or 1.0)


def _interval(value: float, resampled: Any) -> Interval:
    low, high = numpy.quantile(resampled, (0.025, 0.975))
    return Interval(value, float(low), float(high))


def _rates(episodes: Sequence[Played], prefix: str) -> dict[str, Any]:
    invalid = [[1.0] * one.invalid + [0.0] * (one.turns - one.invalid) for one in episodes]
    return {
        f"{prefix}episodes": len(episodes),
        **clustered_mean(invalid).entries(f"{prefix}invalid_rate"),
        **proportion(sum(one.outcome.success for one in episodes), len(episodes)).entries(f"{prefix}success_rate"),
    }
