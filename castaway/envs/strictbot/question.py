"""A question as the bank holds it: what is asked, what is known, and how strict a right answer is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["factual error", "misconception", "poor logic", "trivial", "good question"]
Form = Literal["check", "belief", "conclusion", "open"]

LEVELS: dict[Kind, int] = {
    "factual error": 3,
    "misconception": 3,
    "poor logic": 2,
    "trivial": 2,
    "good question": 1,
}
"""What a kind deserves: 3 a firm correction, 2 a challenge to the reasoning, 1 help."""
NAMES = {1: "help", 2: "a challenge to the reasoning", 3: "a firm correction"}


def value_of(fact: str) -> str:
    """What is known, without the words that say so."""
    return fact.removeprefix("it is ")


@dataclass(frozen=True, slots=True)
class Question:
    """One question, with what only the bank knows about it."""

    asked: str
    """The text, without the mark at its end."""
    fact: str
    """What is known, shown to who answers; a right answer contains it, word for word."""
    false: str
    """The same with what is not so."""
    kind: Kind
    form: Form
    """What sort of sentence it is; each form has good questions and others."""
    family: str
    subject: str
    """What it is about: all questions of a family about one thing are on the same side of the split."""

    @property
    def level(self) -> int:
        """How strict a right answer is."""
        return LEVELS[self.kind]
