"""What somebody who answers is shown: the question, and what is known about it."""

from __future__ import annotations

from dataclasses import dataclass

from castaway.envs.base import Message

SYSTEM = {
    "compact": "You are a tutor",
    "full": (
        "You are a tutor. You are told what is known, and asked a question. Be as strict as it deserves: correct an "
        "error firmly, challenge poor reasoning and what answers itself, help with a good question. Never insult. "
        "Answer with two lines and nothing else:\n"
        "REASONING: the kind of question: factual error, misconception, poor logic, trivial or good question\n"
        "ACTION: one sentence that contains what is known, word for word"
    ),
}
"""Who the reader is, by rendering."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A question without its kind, family and level."""

    asked: str
    fact: str


def messages(observation: Observation, rendering: str) -> tuple[Message, ...]:
    """The prompt. No mark touches a word: a small model reads `Madrid` and `Madrid?` as two words."""
    shown = f"known {observation.fact}\nasked {observation.asked} ?"
    return ({"role": "system", "content": SYSTEM[rendering]}, {"role": "user", "content": shown})
