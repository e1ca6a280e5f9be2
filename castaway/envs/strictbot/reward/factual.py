"""Factual bonus: the answer contains the fact, and not the false statement."""

from __future__ import annotations

from castaway.envs.strictbot.answers import frame_words, says, without, words


def factual(answer: str, fact: str, false: str) -> float:
    """1 if the answer contains the fact, word for word, and the false value nowhere else; otherwise 0."""
    rest, value = without(answer, fact), words(false.removeprefix("it is "))
    # A false value like `first` can be part of any opening or ending; then only the whole false statement counts.
    named = not set(value) <= frame_words() and says(rest, " ".join(value))
    return float(says(answer, fact) and not named and not says(rest, false))
