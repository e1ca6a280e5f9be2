"""What one player knows when it is to move, and how a language model is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from castaway.envs.base import Message
from castaway.envs.openspiel.games import Game


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


def observe(game: Game, variant: int, seat: int, state: Any) -> Observation:
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
    )


def messages(observation: Observation) -> tuple[Message, ...]:
    """What a language model is shown."""
    game = observation.game
    menu = [f"{number}: {name}" for number, name in enumerate(observation.moves, 1)]
    variant = game.variants[observation.variant].name
    told = "\n".join([game.line, observation.text, "Moves:", *menu])
    return (
        {"role": "system", "content": f"You are {game.side(observation.seat)} in {game.name}, {variant}"},
        {"role": "user", "content": told},
    )
