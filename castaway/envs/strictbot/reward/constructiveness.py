"""Constructiveness: around the fact the answer says what to do next, in a short sentence and not a list of words."""

from __future__ import annotations

from castaway.envs.strictbot.language import Language


def constructiveness(answer: str, fact: str, language: Language) -> float:
    """1 for the fact with a few words around it, some of them in `Limits.acts`, none too often; else 0."""
    limits, around = language.limits, language.reader.without(answer, fact).split()
    acts = sum(word in limits.acts for word in around)
    fits = len(around) in limits.around and 1 <= acts <= limits.most_acts and acts * 2 <= len(around)
    varied = all(around.count(word) <= limits.repeats for word in around)
    return float(language.reader.says(answer, fact) and fits and varied)
