"""The format of a reply: `REASONING:`, then `ACTION:`, then optionally `MESSAGE:`, each on its own line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """The parts of a reply; a missing part is an empty text."""

    reasoning: str
    action: str
    message: str = ""

    def __str__(self) -> str:
        """The reply as text; `parse_reply` reads it back unchanged if no part holds a line break or outer spaces."""
        text = f"REASONING: {self.reasoning}\nACTION: {self.action}"
        return f"{text}\nMESSAGE: {self.message}" if self.message else text


def parse_reply(text: str) -> Reply:
    """Read a reply without correcting anything in it.

    A part is a line that begins with its label and a space. The first line with each label counts; all other text is
    ignored. The action is everything after the label up to the end of the line. It is not checked here: the
    environment's rules decide whether it is legal.
    """
    parts = {"REASONING: ": "", "ACTION: ": "", "MESSAGE: ": ""}
    # Not `splitlines`, which also breaks at characters that a message may hold, such as U+2028.
    for line in text.split("\n"):
        for label, found in parts.items():
            if line.startswith(label) and not found:
                parts[label] = line[len(label) :]
    return Reply(*parts.values())
