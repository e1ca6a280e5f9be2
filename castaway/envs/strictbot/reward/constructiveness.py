"""Constructiveness: around the fact the answer says what to do next, in a short sentence and not a list of words."""

from __future__ import annotations

from castaway.envs.strictbot.answers import says, without

WORDS = "ask check change consider correct explain find follow follows look repeat think welcome"
ACTS = frozenset(WORDS.split(" "))
"""Words for what a good tutor asks for or offers."""
FEWEST, MOST = 4, 16
"""Smallest and largest number of words around the fact."""
MOST_ACTS = 4
"""Largest number of `ACTS` in an answer; more make it a list of words."""


def constructiveness(answer: str, fact: str) -> float:
    """1 for the fact with a few words around it, some of them in `ACTS`, none more than twice; else 0."""
    around = without(answer, fact).split()
    acts = sum(word in ACTS for word in around)
    fits = FEWEST <= len(around) <= MOST and 1 <= acts <= MOST_ACTS and acts * 2 <= len(around)
    return float(says(answer, fact) and fits and all(around.count(word) <= 2 for word in around))
