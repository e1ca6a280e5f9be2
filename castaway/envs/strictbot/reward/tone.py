"""Inconsistency of tone: an answer that is friendly and firm at once is neither."""

from __future__ import annotations

from castaway.envs.strictbot.answers import tones


def inconsistency(answer: str, *sentences: str) -> float:
    """Twice the share of tone words that are not of the answer's main level, at most 1; `sentences` do not count."""
    found = tones(answer, *sentences)
    total = sum(found.values())
    return min(1.0, 2 * (total - max(found.values())) / total) if total else 0.0
