"""What the moves of a menu are called, and what is typed to make them, in each rendering."""

from __future__ import annotations

from castaway.envs.openspiel import compact, full
from castaway.envs.openspiel.observation import Observation


def names(observation: Observation) -> tuple[str, ...]:
    """The names of the moves in the menu."""
    return (full if observation.rendering == "full" else compact).names(observation)


def typed(observation: Observation) -> tuple[str, ...]:
    """What is typed for each move of the menu: its name in the full rendering, its number in the others."""
    if observation.rendering == "full":
        return names(observation)
    return tuple(str(number) for number in range(1, len(observation.moves) + 1))
