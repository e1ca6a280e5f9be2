"""Reading practice for the tiny base model: other moves of the same menu, with what speaks for each and its number.

From play alone a small model learns slowly where in a menu a name stands; this text shows it for any move.
"""

from __future__ import annotations

from random import Random

from castaway.envs.openspiel.compact import names
from castaway.envs.openspiel.expert import move_values
from castaway.envs.openspiel.observation import Observation
from castaway.tasks.reply import Reply

AIMLESS = "any"
"""What somebody who moves without a thought gives as its reasoning."""


def practice(observation: Observation, random: Random, count: int) -> list[Reply]:
    """At most `count` answers with different moves, in a random order. They need not be wise."""
    told = [
        Reply(f"{move_value.why} {name}", str(number))
        for number, (move_value, name) in enumerate(zip(move_values(observation), names(observation), strict=True), 1)
    ]
    return random.sample(told, min(count, len(told)))
