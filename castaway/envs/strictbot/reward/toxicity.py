"""Toxicity: alt-profanity-check, a linear model of 200,000 labelled texts that comes in its package: no network needed.

It is trained anew for each version of scikit-learn; the pins of the two belong together.
"""

from __future__ import annotations

from functools import lru_cache

ABUSIVE = 0.8
"""From here on an answer counts as abusive."""
SUSPECT = 0.5
"""Below it is what the model says of any civil sentence about bulls, blood or wet roads."""


@lru_cache(maxsize=65536)
def toxicity(answer: str) -> float:
    """How likely people are to find this abusive, from 0 to 1."""
    from profanity_check import predict_prob  # reads its model when it is imported

    return round(float(predict_prob([answer])[0]), 6)


def charged(answer: str) -> float:
    """The term of the reward: the toxicity, or 0 where it is noise."""
    found = toxicity(answer)
    return found if found >= SUSPECT else 0.0


def abusive(answer: str) -> bool:
    """Whether it counts as abusive."""
    return toxicity(answer) >= ABUSIVE
