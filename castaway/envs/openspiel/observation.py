"""The observation: everything that a player knows when it is to move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from castaway.envs.openspiel.games import Game

Rendering = Literal["full", "compact", "assisted"]
"""How the observation is written for a language model; see `castaway.envs.openspiel.prompting`."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that one player knows when it is to move."""

    game: Game
    variant: int
    seat: int
    text: str
    """The state, as this player may see it."""
    moves: tuple[str, ...]
    """The names of the legal moves."""
    numbers: tuple[int, ...]
    """OpenSpiel's numbers of the same moves."""
    history: tuple[int, ...]
    """All moves so far (OpenSpiel's numbers) in a game with perfect information; empty in other games."""
    rendering: Rendering = "full"


def observe(game: Game, variant: int, seat: int, state: Any, rendering: Rendering = "full") -> Observation:
    """Make the observation of the player in `seat`, which must be the one to move, from OpenSpiel's `state`."""
    numbers = tuple(state.legal_actions())
    return Observation(
        game=game,
        variant=variant,
        seat=seat,
        text=game.text(state, seat),
        moves=tuple(state.action_to_string(seat, number) for number in numbers),
        numbers=numbers,
        history=tuple(state.history()) if game.open else (),
        rendering=rendering,
    )
