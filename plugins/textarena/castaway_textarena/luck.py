"""The random numbers of one game.

TextArena draws from the generators of the modules `random` and `numpy.random`, which the whole process shares. A game
here has their states to itself: they are put in place for each of its steps, and the outer ones are put back after it.
So games that are played side by side do not see each other's draws, nor does anybody else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy

State = tuple[Any, Any]
"""The states of `random` and of `numpy.random`."""


def seeded(seed: int) -> State:
    """The states of two generators with this seed."""
    return Random(seed).getstate(), numpy.random.RandomState(seed % 2**32).get_state()


@contextmanager
def drawing_from(state: State) -> Iterator[list[State]]:
    """Context in which the generators of the process have this state; its list holds the new state when it ends."""
    outer = random.getstate(), numpy.random.get_state()
    after = [state]
    random.setstate(state[0])
    numpy.random.set_state(state[1])
    try:
        yield after
    finally:
        after[0] = random.getstate(), numpy.random.get_state()
        random.setstate(outer[0])
        numpy.random.set_state(outer[1])
