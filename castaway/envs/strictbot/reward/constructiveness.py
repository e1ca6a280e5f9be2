"""Constructiveness: around the fact stands something to go on with, in a sentence and not in a heap of words."""

from __future__ import annotations

from castaway.envs.strictbot.answers import says, without

WORDS = "ask check change consider correct explain find follow follows look repeat think welcome"
ACTS = frozenset(WORDS.split(" "))
"""What a good tutor asks somebody to do, or offers."""
FEWEST, MOST = 4, 16
"""Words around the fact."""
MOST_ACTS = 4


def constructiveness(answer: str, fact: str) -> float:
    """1 for the fact with a few words around it, at least one of them an act and none said more than twice; else 0."""
    around = without(answer, fact).split()
    acts = sum(word in ACTS for word in around)
    fits = FEWEST <= len(around) <= MOST and 1 <= acts <= MOST_ACTS and acts * 2 <= len(around)
    return float(says(answer, fact) and fits and all(around.count(word) <= 2 for word in around))
