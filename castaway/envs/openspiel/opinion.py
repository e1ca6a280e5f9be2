"""What somebody who knows a game thinks of the moves of a menu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from castaway.envs.openspiel.observation import Observation


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one move is worth, and why."""

    worth: float
    """Compared within one menu alone."""
    why: str
    """In a word or two, so that a small model can learn when it is said."""


Guide = Callable[[Observation], list[Opinion]]
"""From what a player knows to an opinion on each move of the menu, in its order."""
