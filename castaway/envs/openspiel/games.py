"""Describes a game of OpenSpiel: its variants, the text that players see, its rules in one line, and success.

The games themselves are listed in `castaway.envs.openspiel.catalogue`.

**Text.** A player is shown `observation_string(player)`, or `information_state_string(player)` if a game has no such
text or leaves the bets out of it. It is never shown `str(state)`, which contains the hands of all players.

**Simultaneous moves** (goofspiel) are made one after the other, through OpenSpiel's turn-based wrapper. The texts above
do not show the second player what the first has chosen.
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
"""Which of OpenSpiel's two texts of a state a player is shown."""
Aim = Literal["gain", "first"]
"""`gain`: a return above 0 (a win, money, the team's points); `first`: a higher return than every other player."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant of a game; most variants differ in size."""

    name: str
    parameters: Mapping[str, Parameter]
    """Game parameters of OpenSpiel, which rejects unknown names."""
    base_rate: float
    """Success rate of a random player against random ones, 0 to 1; see `castaway.envs.openspiel.base_rates`."""


@dataclass(frozen=True, slots=True)
class Game:
    """One game with all its variants, the shortest first."""

    name: str
    """OpenSpiel's short name."""
    line: str
    """The rules in plain English, in one line."""
    aim: Aim
    shows: Shows
    variants: tuple[Variant, ...]
    sides: tuple[str, ...] = ()
    """What the text of a state calls each seat; empty if it numbers the players from 0."""
    open: bool = False
    """Whether the game has perfect information and no chance events; all players then know all moves so far."""
    dense: bool = False
    """Whether OpenSpiel writes the cells of a row without spaces. Spaces are then inserted, so that each cell is one
    word (" x")."""

    def side(self, seat: int) -> str:
        """The name of the side in this seat, as in the game's own text."""
        return self.sides[seat] if self.sides else f"player {seat}"

    def text(self, state: Any, seat: int) -> str:
        """The state as the player in this seat may see it."""
        shown = state.observation_string if self.shows == "observation" else state.information_state_string
        text = str(shown(seat)).replace("][", "]\n[").strip("\n")
        if self.dense:
            text = _CELLS.sub(lambda cells: f" {' '.join(cells.group())}", text)
        return "\n".join(line.rstrip() for line in text.splitlines())

    def result(self, returns: Sequence[float], seat: int, most: float) -> float:
        """The result of a seat from 0 to 1; 0.5 is a draw.

        Args:
            returns: OpenSpiel's return of each seat.
            seat: the seat, from 0.
            most: the largest absolute return of the game; see `largest_return`.
        """
        own = returns[seat]
        if self.aim == "gain":
            return 0.5 + own / (2 * most)
        others = [amount for number, amount in enumerate(returns) if number != seat]
        return sum(1.0 if own > amount else 0.5 if own == amount else 0.0 for amount in others) / len(others)

    def success(self, returns: Sequence[float], seat: int) -> bool:
        """Whether a seat has reached the aim of the game. Neither a draw nor a shared first place is a success."""
        if self.aim == "gain":
            return returns[seat] > 0
        return all(returns[seat] > amount for number, amount in enumerate(returns) if number != seat)


@cache
def load(name: str, parameters: tuple[tuple[str, Parameter], ...]) -> Any:
    """Load a game of OpenSpiel; simultaneous moves are made turn-based."""
    game = pyspiel.load_game(name, dict(parameters))
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        return pyspiel.load_game_as_turn_based(name, dict(parameters))
    return game


def load_variant(game: Game, variant: int) -> Any:
    """Load a variant of a game as an OpenSpiel game."""
    return load(game.name, tuple(sorted(game.variants[variant].parameters.items())))


@cache
def _players(name: str, parameters: tuple[tuple[str, Parameter], ...]) -> int:
    return int(load(name, parameters).num_players())


def player_count(game: Game, variant: int) -> int:
    """The number of seats of a variant."""
    return _players(game.name, tuple(sorted(game.variants[variant].parameters.items())))


def largest_return(loaded: Any) -> float:
    """The largest absolute return that a game can end with."""
    return max(abs(loaded.min_utility()), abs(loaded.max_utility()))
