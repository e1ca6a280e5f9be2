"""Extra replies for pretraining the tiny base model: other moves of the same menu, each with its reason.

From played turns alone a small model learns slowly to find a name in a menu; these replies show it for any move.
"""

from __future__ import annotations

from random import Random

from castaway.envs.openspiel.naming import typed
from castaway.envs.openspiel.observation import Observation
from castaway.envs.openspiel.reasons import reasons
from castaway.tasks.reply import Reply


def practice(observation: Observation, random: Random, count: int) -> list[Reply]:
    """At most `count` replies with different moves, in random order. They need not be good."""
    replies = [Reply(*both) for both in zip(reasons(observation), typed(observation), strict=True)]
    return random.sample(replies, min(count, len(replies)))
