"""Measures how balanced a scenario of MAROONED is, in many games of scripted crews against scripted traitors.

    castaway balance --scenario skiff --episodes 500

The players are fixed and the games are seeded, so the same command prints the same table. The games have training ids:
the constants of a scenario can be tuned with this table without using the held-out ids of evaluation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from random import Random

from castaway.envs.marooned.engine import Game
from castaway.envs.marooned.scenario import load_scenario
from castaway.envs.marooned.scripted import Saboteur, Script, Typist, Waiter, Worker
from castaway.metrics.intervals import Interval, clustered_mean, proportion
from castaway.metrics.markdown import percent, table
from castaway.tools.marooned.traitors import BlindVoter, Framer, HunchVoter, Poisoner

FIRST_ID = 900_000_000
"""The training id of the first game; the others follow."""

Player = Callable[[Random], Script]
"""Makes a scripted player that uses its own random generator."""


@dataclass(frozen=True, slots=True)
class Match:
    """The players of one row of the table, and the expected share of wins."""

    name: str
    colonists: Sequence[Player]
    """In the order of the crew; the last one also plays all remaining colonists."""
    traitor: Player
    low: float = 0.0
    high: float = 1.0
    """The band in which the crew's share of wins should be."""
    chance: float | None = None
    """Instead of a band, the share that chance alone would win; the interval must not be entirely above it."""


def _waiter(random: Random) -> Script:
    return Waiter()


def _worker(random: Random) -> Script:
    return Worker()


MATCHES = (
    Match("workers, idle traitor", [_worker], _waiter, low=0.9),
    Match("workers, saboteur", [_worker], lambda random: Saboteur(), low=0.4, high=0.6),
    Match("workers, poisoner", [_worker], lambda random: Poisoner(), low=0.4, high=0.6),
    Match("workers, framer", [_worker], lambda random: Framer(), low=0.4, high=0.6),
    Match("workers who follow hunches, saboteur", [lambda random: HunchVoter()], lambda random: Saboteur()),
    Match("waiters, idle traitor", [_waiter], _waiter, high=0.0),
    Match("waiters, working traitor", [_waiter], _worker),
    Match("one worker, idle traitor", [_worker, _waiter], _waiter),
    Match("typists, typist", [Typist], Typist, high=0.05),
    Match("typists, saboteur", [Typist], lambda random: Saboteur(), high=0.05),
    Match("blind voters in order, idle traitor", [lambda random: BlindVoter()], _waiter, chance=0.2),
    Match("blind voters in order, saboteur", [lambda random: BlindVoter()], lambda random: Saboteur(), chance=0.2),
    Match("blind voters at random, idle traitor", [BlindVoter], _waiter, chance=0.2),
)
"""One of five sailors is the traitor, so blind voters may win a fifth of the games."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a game ended."""

    crew_won: bool
    ending: str
    days: int
    progress: float
    """How complete the ship was, in percent."""


def balance_table(scenario: str, episodes: int, processes: int = 1) -> str:
    """A Markdown table with one row for each match: who won and how, with 95 % intervals."""
    header = ["colonists, traitor", "crew wins (95 %)", "band", "", "days", "ship", "how it ended"]
    rows = [_row(match, play_match(scenario, match.name, episodes, processes)) for match in MATCHES]
    head = f"{scenario}, {episodes} games each, training ids {FIRST_ID} and up."
    return f"{head}\n\n{table(header, rows)}"


def play_match(scenario: str, name: str, episodes: int, processes: int = 1) -> list[Ended]:
    """Play the games of the match of that name; results in the order of their ids."""
    play, ids = partial(_play, scenario, name), range(FIRST_ID, FIRST_ID + episodes)
    if processes == 1:
        return [play(seed) for seed in ids]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(play, ids, chunksize=8))


def _play(scenario: str, name: str, seed: int) -> Ended:
    """Play one game."""
    # By name, because the players of a match are lambdas, which cannot be pickled for another process.
    match = next(match for match in MATCHES if match.name == name)
    game = Game(load_scenario(scenario), seed)
    players = list(match.colonists)
    scripts: dict[str, Script] = {}
    for number, sailor in enumerate(game.world.sailors.values()):
        random = Random(seed * 16 + number + 1)
        if sailor.role == "traitor":
            scripts[sailor.name] = match.traitor(random)
        else:
            scripts[sailor.name] = (players.pop(0) if len(players) > 1 else players[0])(random)
    while not game.over:
        game.step(
            {sailor.name: scripts[sailor.name](game.observation(sailor.name)).action for sailor in game.world.living}
        )
    world = game.world
    return Ended(world.winner == "crew", world.ending, world.day, world.progress)


def in_band(match: Match, wins: Interval) -> bool:
    """Whether the share of wins is in the match's band, or could be due to chance if the match has no band."""
    return match.low <= wins.value <= match.high if match.chance is None else wins.low <= match.chance


def _row(match: Match, ended: Sequence[Ended]) -> list[str]:
    wins = proportion(sum(one.crew_won for one in ended), len(ended))
    if match.chance is not None:
        band = f"chance: {100 * match.chance:.0f}"
    else:
        band = "" if (match.low, match.high) == (0.0, 1.0) else f"{100 * match.low:.0f} to {100 * match.high:.0f}"
    endings = Counter(one.ending for one in ended).most_common()
    return [
        match.name,
        _share(wins),
        band,
        ("holds" if in_band(match, wins) else "missed") if band else "",
        _mean([one.days for one in ended]),
        _mean([one.progress for one in ended]),
        "; ".join(f"{ending} {percent(count / len(ended))}" for ending, count in endings),
    ]


def _share(wins: Interval) -> str:
    return f"{percent(wins.value)} ({100 * wins.low:.1f} to {100 * wins.high:.1f})"


def _mean(values: Sequence[float]) -> str:
    mean = clustered_mean([[value] for value in values])
    return f"{mean.value:.1f} ({mean.low:.1f} to {mean.high:.1f})"
