"""Extra replies for pretraining the tiny base model: other moves of the same menu, each with its reason and number.

From played turns alone a small model learns slowly to find a name in a menu; these replies show it for any move.
"""

from __future__ import annotations

from random import Random

from castaway.envs.openspiel.compact import names
from castaway.envs.openspiel.expert import move_values
from castaway.envs.openspiel.observation import Observation
from castaway.tasks.reply import Reply

AIMLESS = "any"
"""The reasoning of a random move."""


def practice(observation: Observation, random: Random, count: int) -> list[Reply]:
    """At most `count` replies with different moves, in random order. They need not be good."""
    replies = [
        Reply(f"{move_value.why} {name}", str(number))
        for number, (move_value, name) in enumerate(zip(move_values(observation), names(observation), strict=True), 1)
    ]
    return random.sample(replies, min(count, len(replies)))
