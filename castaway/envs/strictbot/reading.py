"""Reads texts as words, to find sentences in them whatever their case, punctuation and spacing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reader:
    """Finds sentences in texts, word for word."""

    words: Callable[[str], list[str]]
    """The words and numbers of a text, in lower case."""

    def says(self, text: str, sentence: str) -> bool:
        """Whether a text contains a sentence, word for word."""
        return f" {' '.join(self.words(sentence))} " in f" {' '.join(self.words(text))} "

    def times(self, text: str, sentence: str) -> int:
        """How often a text contains a sentence, word for word."""
        # Two spaces between words, because `count` would miss a repetition that shares a space with the one before.
        spaced = f" {' '.join(self.words(text))} ".replace(" ", "  ")
        return spaced.count(f" {'  '.join(self.words(sentence))} ")

    def without(self, text: str, *sentences: str) -> str:
        """The words of a text, without these sentences."""
        left = f" {' '.join(self.words(text))} "
        for sentence in sentences:
            left = left.replace(f" {' '.join(self.words(sentence))} ", " ")
        return left.strip()

    def around(self, text: str, sentence: str) -> tuple[str, str]:
        """The words before and after a sentence, without it; all are before it if the text does not contain it."""
        before, _, after = f" {' '.join(self.words(text))} ".partition(f" {' '.join(self.words(sentence))} ")
        return before.strip(), self.without(after, sentence)
