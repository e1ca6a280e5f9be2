"""What a served teacher is asked about one attempt: a rubric that a person can edit, and fenced-off data."""

from __future__ import annotations

import json
from collections.abc import Sequence

from castaway.tasks.environment import Message, Rules
from castaway.teacher.base import Attempt
from castaway.teacher.rubrics import instructions

LONGEST_REPLY = 2000
"""Characters of a student's answer that the teacher is shown."""
MOST_ACTIONS = 80
"""Legal actions that the teacher is shown."""


def question(task: str, rules: Rules, attempt: Attempt) -> list[Message]:
    """The messages that ask for a verdict.

    All that comes from the game or from the student is one JSON object: a line of chat in it cannot look like the end
    of the data, since its line breaks, quotation marks and angle brackets are escaped.
    """
    legal = rules.legal_actions(attempt.prompt.observation)
    data = {
        "player": attempt.prompt.agent,
        "role": attempt.prompt.role,
        "saw": [message["content"] for message in attempt.prompt.messages],
        "legal_actions": list(legal[:MOST_ACTIONS]),
        "answered": attempt.text[:LONGEST_REPLY],
    }
    fenced = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return [
        {"role": "system", "content": instructions(task)},
        {"role": "user", "content": f"<data>\n{fenced}\n</data>"},
    ]


def asked_again(messages: Sequence[Message], answer: str, reason: str) -> list[Message]:
    """The same question after an answer that could not be used."""
    return [
        *messages,
        {"role": "assistant", "content": answer[:LONGEST_REPLY]},
        {"role": "user", "content": f"That cannot be used: {reason}. Answer again, with one JSON object."},
    ]
