"""What somebody who answers is shown: the question, and what is known about it."""

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
"""Who the reader is, by rendering."""


ASKED, END, TOLD, KNOWN = "asked ", " ?", "told ", "known "
YES, NO = "yes", "nowhere"
"""Whether the question tells what is known; neither word, nor any of the marks, stands in a question or a fact."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A question without its kind, family and level."""

    asked: str
    fact: str


def messages(observation: Observation, rendering: str) -> tuple[Message, ...]:
    """The prompt. No mark touches a word: a small model reads `Madrid` and `Madrid?` as two words.

    The compact rendering says whether the question names what is known: a model of a million parameters learns to copy
    a word it has never met, but to compare two of them only for words that it knows (docs/strictbot.md).

    What is known stands at the end: it learns to look at a place long before it learns to search.
    """
    lines = [f"{ASKED}{observation.asked}{END}", f"{KNOWN}{observation.fact}"]
    if rendering == "compact":
        lines.insert(1, f"{TOLD}{YES if named(observation.asked, observation.fact) else NO}")
    shown = "\n".join(lines)
    return ({"role": "system", "content": SYSTEM[rendering]}, {"role": "user", "content": shown})


def read_back(shown: Sequence[Message]) -> Observation:
    """What a prompt was made of."""
    asked, *_, known = shown[-1]["content"].split("\n")
    return Observation(asked.removeprefix(ASKED).removesuffix(END), known.removeprefix(KNOWN))
