"""Inconsistency of tone: an answer should not be friendly and firm at the same time."""

from __future__ import annotations

from castaway.envs.strictbot.answers import Answers


def inconsistency(answers: Answers, answer: str, *sentences: str) -> float:
    """Twice the share of tone words outside the answer's main level, at most 1; words of `sentences` do not count."""
    found = answers.tones(answer, *sentences)
    total = sum(found.values())
    return min(1.0, 2 * (total - max(found.values())) / total) if total else 0.0
