"""The observation of a tutor, the question and the fact, and the prompt that is made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from castaway.tasks.environment import Message


@dataclass(frozen=True, slots=True)
class Observation:
    """A question without its kind, family and level. Neither text has a line break, so a prompt can be read back."""

    asked: str
    fact: str


@dataclass(frozen=True, slots=True)
class Prompts:
    """How one rendering shows an observation: a line for the question, perhaps another, and a line for the fact.

    The fact is at the end, because a tiny model learns to look at a position long before it learns to search.
    """

    system: str
    """The system message."""
    asked: str
    """The mark before the question."""
    end: str
    """The mark after the question."""
    known: str
    """The mark before the fact."""
    between: Callable[[Observation], tuple[str, ...]]
    """The lines between question and fact."""
    typed: Callable[[str], str]
    """A question or a fact as a person types it, brought into the form of the bank."""
    example: str
    """A fact, for people who are to type one."""

    def messages(self, observation: Observation) -> tuple[Message, ...]:
        """The chat messages for an observation."""
        question, fact = f"{self.asked}{observation.asked}{self.end}", f"{self.known}{observation.fact}"
        shown = "\n".join([question, *self.between(observation), fact])
        return ({"role": "system", "content": self.system}, {"role": "user", "content": shown})

    def read_back(self, shown: Sequence[Message]) -> Observation:
        """The observation that a prompt was made from."""
        asked, *_, known = shown[-1]["content"].split("\n")
        return Observation(asked.removeprefix(self.asked).removesuffix(self.end), known.removeprefix(self.known))
