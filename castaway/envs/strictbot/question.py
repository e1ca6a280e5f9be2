"""A question of the bank: its text, the fact to answer with, and how strict the right answer is."""

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
"""Kind to the level that it deserves: 3 a firm correction, 2 a challenge to the reasoning, 1 help."""
NAMES = {1: "help", 2: "a challenge to the reasoning", 3: "a firm correction"}
"""Level to its name in text."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question, with all that the bank knows about it."""

    asked: str
    """The text; without a question mark in the compact rendering."""
    fact: str
    """The fact, which the tutor is shown; a right answer contains it, word for word."""
    false: str
    """A false statement of the same form."""
    kind: Kind
    form: Form
    """The grammatical form; each form has good questions and others."""
    family: str
    """The topic or template that the question was made from."""
    subject: str
    """What it is about; all questions of a family with the same subject are in the same share of the bank."""
    wording: int = 0
    """Number of the wording, if the same is asked in several ways."""

    @property
    def level(self) -> int:
        """How strict the right answer is, 1 to 3."""
        return LEVELS[self.kind]
