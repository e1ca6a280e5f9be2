"""The opponents: random players and tree search.

`Search` is OpenSpiel's Monte Carlo tree search in C++. It searches the true state: in a game with hidden cards it plays
as if it saw all of them. It is deterministic for a seed and a build of OpenSpiel. It can play every game of the
catalogue, since all of them are turn-based and have rewards only at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pyspiel

EXPLORATION = 1.414
"""The exploration constant of UCT: the square root of 2, for returns of about 1."""
MEMORY_IN_MEGABYTES = 64

Opponent = Callable[[Any], int]
"""Chooses a legal move (OpenSpiel's number) in the true state, in which this opponent is to move."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """A random player: all legal moves have the same probability."""


@dataclass(frozen=True, slots=True)
class Search:
    """Tree search with a number of simulations for each move."""

    simulations: int


Description = Uniform | Search


def opponent_named(name: str) -> Description:
    """The opponent with this name: `random`, or `mcts-N` for a search with N simulations.

    Raises:
        ValueError: there is no such opponent.
    """
    kind, _, count = name.partition("-")
    if name == "random":
        return Uniform()
    if kind != "mcts" or not count.isdecimal() or int(count) < 2:
        raise ValueError(f"there is no opponent {name!r}: it is random, or mcts-N with 2 simulations or more")
    return Search(int(count))


def make_opponent(description: Description, game: Any, random: Random) -> Opponent:
    """Make an opponent for one episode of a loaded game; all its random numbers come from `random`."""
    if isinstance(description, Uniform):
        return lambda state: random.choice(state.legal_actions())
    evaluator = pyspiel.RandomRolloutEvaluator(1, random.getrandbits(31))
    bot = pyspiel.MCTSBot(
        game,
        evaluator,
        EXPLORATION,
        description.simulations,
        MEMORY_IN_MEGABYTES,
        False,  # no exact solving, which would make a small number of simulations play perfectly near the end
        random.getrandbits(31),
        False,
    )
    return lambda state: int(bot.step(state))
