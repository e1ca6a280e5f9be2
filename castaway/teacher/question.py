"""What a served teacher is asked about one attempt: a rubric that a person can edit, and fenced-off data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources

from jinja2 import Environment, StrictUndefined

from castaway.tasks.environment import Message, Rules
from castaway.teacher.base import Attempt

LONGEST_REPLY = 2000
"""Characters of a student's answer that the teacher is shown."""
MOST_ACTIONS = 80
"""Legal actions that the teacher is shown."""

ANY_TEXT, AND_MORE = "any text", "and others"
"""What stands there instead of a list where any text is legal, and at the end of a list that was cut."""


def question(rubric: str, rules: Rules, attempt: Attempt) -> list[Message]:
    """The messages that ask for a verdict; `rubric` is what the task says of itself (`Task.rubric`).

    All that comes from the game or from the student is one JSON object: a line of chat in it cannot look like the end
    of the data, since its line breaks, quotation marks and angle brackets are escaped.
    """
    legal = rules.legal_actions(attempt.prompt.observation)
    data = {
        "player": attempt.prompt.agent,
        "role": attempt.prompt.role,
        "saw": [message["content"] for message in attempt.prompt.messages],
        "legal_actions": _listed(legal),
        "answered": attempt.text[:LONGEST_REPLY],
    }
    fenced = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return [
        {"role": "system", "content": instructions(rubric)},
        {"role": "user", "content": f"<data>\n{fenced}\n</data>"},
    ]


def _listed(legal: Sequence[str]) -> list[str] | str:
    """The legal actions as the teacher is shown them; an empty list would say that nothing is legal."""
    if not legal:
        return ANY_TEXT
    return [*legal[:MOST_ACTIONS], *([AND_MORE] if len(legal) > MOST_ACTIONS else [])]


@cache
def instructions(rubric: str) -> str:
    """What every question about a task begins with: the frame of verdict.jinja, and within it the task's rubric."""
    frame = (resources.files(__package__) / "verdict.jinja").read_text("utf-8")
    return Environment(undefined=StrictUndefined, autoescape=False).from_string(frame).render(rubric=rubric.strip())


def asked_again(messages: Sequence[Message], answer: str, reason: str) -> list[Message]:
    """The same question after an answer that could not be used."""
    return [
        *messages,
        {"role": "assistant", "content": answer[:LONGEST_REPLY]},
        {"role": "user", "content": f"That cannot be used: {reason}. Answer again, with one JSON object."},
    ]
