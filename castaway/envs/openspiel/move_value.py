"""The value of a move by a heuristic of its game."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from castaway.envs.openspiel.observation import Observation


@dataclass(frozen=True, slots=True)
class MoveValue:
    """The value of one move, and the reason for it."""

    worth: float
    """Higher is better; only comparable within one menu."""
    why: str
    """The reason in a word or two, short enough for a small model to learn."""


Guide = Callable[[Observation], list[MoveValue]]
"""Returns the value of each move of the menu, in its order, from what the player knows."""
