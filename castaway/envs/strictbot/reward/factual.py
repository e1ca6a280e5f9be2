"""Factual bonus: the answer contains what is so, and not what is not so."""

from __future__ import annotations

from castaway.envs.strictbot.answers import says


def factual(answer: str, fact: str, false: str) -> float:
    """1 if the fact stands in the answer, word for word, and its opposite does not; else 0."""
    return float(says(answer, fact) and not says(answer, false))
