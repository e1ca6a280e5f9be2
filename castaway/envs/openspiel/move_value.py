"""The value of a move, as somebody who knows the game sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from castaway.envs.openspiel.observation import Observation


@dataclass(frozen=True, slots=True)
class MoveValue:
    """What one move is worth, and why."""

    worth: float
    """Compared within one menu alone."""
    why: str
    """In a word or two, so that a small model can learn when it is said."""


Guide = Callable[[Observation], list[MoveValue]]
"""From what a player knows to the value of each move of the menu, in its order."""
