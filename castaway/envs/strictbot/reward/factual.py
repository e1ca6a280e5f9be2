"""Factual bonus: the answer contains the fact, and not the false statement."""

from __future__ import annotations

from castaway.envs.strictbot.language import Language


def factual(answer: str, fact: str, false: str, language: Language) -> float:
    """1 if the answer contains the fact, word for word, and the false value nowhere else; otherwise 0."""
    reader = language.reader
    rest, value = reader.without(answer, fact), reader.words(language.value_of(false))
    # A false value like `first` can be part of any opening or ending; then only the whole false statement counts.
    named = not set(value) <= language.answers.frame_words and reader.says(rest, " ".join(value))
    return float(reader.says(answer, fact) and not named and not reader.says(rest, false))
