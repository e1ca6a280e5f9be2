"""What a game of OpenSpiel is to Castaway: its variants, its text, its one line of rules, and what counts as success.

The games themselves are listed in `castaway.envs.openspiel.catalogue`.

**What a player is shown** is `observation_string(player)` or, where a game has none or where it forgets the betting,
`information_state_string(player)`. Never `str(state)`: it shows every hand.

**Moves at the same time** (goofspiel) are taken one after the other through OpenSpiel's turn-based wrapper; the texts
above do not show the second mover what the first has chosen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import pyspiel

_CELLS = re.compile("[.+xoXO]{2,}")

Parameter = int | float | bool | str
Shows = Literal["observation", "information"]
"""Which of OpenSpiel's two texts of a state a player reads."""
Aim = Literal["gain", "first"]
"""`gain`: end with more than nothing (a win, money, the team's points); `first`: end with more than anybody else."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One size of a game."""

    name: str
    parameters: Mapping[str, Parameter]
    """As OpenSpiel takes them; it refuses a name that it does not know."""
    base_rate: float
    """How often a random player has success among random ones; see `castaway.envs.openspiel.base_rates`."""


@dataclass(frozen=True, slots=True)
class Game:
    """One game in all its variants, the one that ends soonest first."""

    name: str
    """OpenSpiel's short name."""
    line: str
    """The rules in plain English, on one line."""
    aim: Aim
    shows: Shows
    variants: tuple[Variant, ...]
    sides: tuple[str, ...] = ()
    """How the text of a state calls each seat, where it does not count the players from 0."""
    open: bool = False
    """Whether nothing is hidden and nothing is left to chance: the moves so far are then everybody's knowledge."""
    dense: bool = False
    """Whether OpenSpiel writes the cells of a row without blanks. They are parted: one cell, one word, " x"."""

    def side(self, seat: int) -> str:
        """Whom the player in a seat plays, in the words of the game's own text."""
        return self.sides[seat] if self.sides else f"player {seat}"

    def text(self, state: Any, seat: int) -> str:
        """The state as the player in a seat may see it."""
        shown = state.observation_string if self.shows == "observation" else state.information_state_string
        text = str(shown(seat)).replace("][", "]\n[").strip("\n")
        if self.dense:
            text = _CELLS.sub(lambda cells: f" {' '.join(cells.group())}", text)
        return "\n".join(line.rstrip() for line in text.splitlines())

    def result(self, returns: Sequence[float], seat: int, most: float) -> float:
        """How well a seat did, from 0 to 1; one half is a draw.

        Args:
            returns: what OpenSpiel says that each seat has earned.
            most: the largest return there is, either way; see `largest_return`.
        """
        own = returns[seat]
        if self.aim == "gain":
            return 0.5 + own / (2 * most)
        others = [amount for number, amount in enumerate(returns) if number != seat]
        return sum(1.0 if own > amount else 0.5 if own == amount else 0.0 for amount in others) / len(others)

    def success(self, returns: Sequence[float], seat: int) -> bool:
        """Whether a seat has reached the game's aim. A draw is no success, and neither is a shared first place."""
        if self.aim == "gain":
            return returns[seat] > 0
        return all(returns[seat] > amount for number, amount in enumerate(returns) if number != seat)


@cache
def load(name: str, parameters: tuple[tuple[str, Parameter], ...]) -> Any:
    """OpenSpiel's game of that name; one whose players move at the same time is made to take turns."""
    game = pyspiel.load_game(name, dict(parameters))
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        return pyspiel.load_game_as_turn_based(name, dict(parameters))
    return game


def load_variant(game: Game, variant: int) -> Any:
    """OpenSpiel's game of a variant."""
    return load(game.name, tuple(sorted(game.variants[variant].parameters.items())))


@cache
def _players(name: str, parameters: tuple[tuple[str, Parameter], ...]) -> int:
    return int(load(name, parameters).num_players())


def player_count(game: Game, variant: int) -> int:
    """How many seats a variant has."""
    return _players(game.name, tuple(sorted(game.variants[variant].parameters.items())))


def largest_return(loaded: Any) -> float:
    """The largest gain or loss that a game can end with."""
    return max(abs(loaded.min_utility()), abs(loaded.max_utility()))
