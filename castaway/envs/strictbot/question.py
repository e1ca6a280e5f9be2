"""A question of the bank: its text, the fact to answer with, and how strict the right answer is."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    claim: str = ""
    """The clause that is claimed, concluded or taken for granted, without slips of the pen; empty if there is none."""
    doubtful: bool = False
    """Whether the conclusion is only held to be possible, or doubted."""
    opposite: bool = False
    """Whether the opposite of what is so is taken as the fact; see `opposed`."""

    @property
    def level(self) -> int:
        """How strict the right answer is, 1 to 3."""
        return LEVELS[self.kind]

    def opposed(self) -> Question:
        """The same claim or belief, where the false statement is the fact: what was wrong is right, and the reverse.

        Whoever has met both versions cannot tell the kind by the claim alone, but has to compare it with the fact
        (counterfactual data augmentation: Kaushik, Hovy and Lipton 2020, arXiv:1909.12434).

        Raises:
            ValueError: a conclusion or an open question, of which the false statement decides nothing.
        """
        if self.form not in ("check", "belief"):
            raise ValueError(f"{self.form} {self.asked!r} is neither a claim nor a belief")
        wrong: Kind = "factual error" if self.form == "check" else "misconception"
        kind: Kind = "good question" if self.kind == wrong else wrong
        return replace(self, fact=self.false, false=self.fact, kind=kind, opposite=True)
