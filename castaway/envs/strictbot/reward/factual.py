"""Factual bonus: the answer contains what is so, and not what is not so."""

from __future__ import annotations

from castaway.envs.strictbot.answers import frame_words, says, without, words


def factual(answer: str, fact: str, false: str) -> float:
    """1 if the fact stands in the answer, word for word, and what is false does not, not even by the way; else 0."""
    rest, value = without(answer, fact), words(false.removeprefix("it is "))
    # A value like `first` may be part of any answer: then only the whole sentence counts.
    named = not set(value) <= frame_words() and says(rest, " ".join(value))
    return float(says(answer, fact) and not named and not says(rest, false))
