"""Who sits in the other seats.

A `Search` is OpenSpiel's own Monte Carlo tree search in C++. It searches the true state: in a game with hidden cards
it plays as if it saw them all. Moves and chance are sampled by the seed, so that one seed plays one way with one build
of OpenSpiel; it does not refuse any game of the catalogue, since all of them pay at the end only and take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pyspiel

EXPLORATION = 1.414
"""The constant of UCT: the square root of two, for returns of about one."""
MEMORY_IN_MEGABYTES = 64

Opponent = Callable[[Any], int]
"""From the true state, with this seat to move, to OpenSpiel's number of a legal move."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """Any legal move, all with the same chance."""


@dataclass(frozen=True, slots=True)
class Search:
    """Tree search with so many simulations for each move."""

    simulations: int


Description = Uniform | Search


def opponent_named(name: str) -> Description:
    """The opponent of that name: `random`, or `mcts-N` for a search with N simulations.

    Raises:
        ValueError: no opponent is called so.
    """
    kind, _, count = name.partition("-")
    if name == "random":
        return Uniform()
    if kind != "mcts" or not count.isdecimal() or int(count) < 2:
        raise ValueError(f"there is no opponent {name!r}: it is random, or mcts-N with 2 simulations or more")
    return Search(int(count))


def make_opponent(description: Description, game: Any, random: Random) -> Opponent:
    """An opponent for one episode of a loaded game, with everything that it will draw taken from `random`."""
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
