"""The observation of a tutor, the question and the fact, and the prompt that is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from castaway.envs.strictbot.telling import named
from castaway.tasks.environment import Message

SYSTEM = {
    "compact": "You are a tutor",
    "full": (
        "You are a tutor. You are told what is known, and asked a question. Be as strict as it deserves: correct an "
        "error firmly, challenge poor reasoning and what answers itself, help with a good question. Never insult. "
        "Answer with two lines and nothing else:\n"
        "REASONING: the kind of question: factual error, misconception, poor logic, trivial or good question\n"
        "ACTION: one sentence that says what is known, word for word"
    ),
}
"""The system message, by rendering."""


ASKED, END, TOLD, KNOWN = "asked ", " ?", "told ", "known "
YES, NO = "yes", "nowhere"
"""The values of the line `told`: whether the question names the fact.

Neither these words nor the marks above occur in a question or a fact, so a prompt can be read back.
"""


@dataclass(frozen=True, slots=True)
class Observation:
    """A question without its kind, family and level."""

    asked: str
    fact: str


def messages(observation: Observation, rendering: str) -> tuple[Message, ...]:
    """The chat messages for an observation.

    Punctuation is separated from words, since a small model reads `Madrid` and `Madrid?` as two different words.

    The compact rendering says whether the question names the fact: a model of a million parameters learns to copy words
    that it has never seen, but not to compare them (docs/strictbot.md).

    The fact is at the end, because such a model learns to look at a position long before it learns to search.
    """
    lines = [f"{ASKED}{observation.asked}{END}", f"{KNOWN}{observation.fact}"]
    if rendering == "compact":
        lines.insert(1, f"{TOLD}{YES if named(observation.asked, observation.fact) else NO}")
    shown = "\n".join(lines)
    return ({"role": "system", "content": SYSTEM[rendering]}, {"role": "user", "content": shown})


def read_back(shown: Sequence[Message]) -> Observation:
    """The observation that a prompt was made from."""
    asked, *_, known = shown[-1]["content"].split("\n")
    return Observation(asked.removeprefix(ASKED).removesuffix(END), known.removeprefix(KNOWN))
