"""What one player knows when it is to move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from castaway.envs.openspiel.games import Game

Rendering = Literal["full", "compact", "assisted"]
"""How a language model is told; see `castaway.envs.openspiel.prompting`."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one player knows when it is to move."""

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
    """All moves so far, in a game with nothing to hide; empty in the others."""
    rendering: Rendering = "full"


def observe(game: Game, variant: int, seat: int, state: Any, rendering: Rendering = "full") -> Observation:
    """What the player in a seat, whose turn it is, knows of OpenSpiel's state."""
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
