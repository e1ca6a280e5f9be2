"""How an agent answers: `REASONING:`, then `ACTION:`, then optionally `MESSAGE:`, each on a line of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """The parts of an answer; a part that is missing is empty."""

    reasoning: str
    action: str
    message: str = ""

    def __str__(self) -> str:
        """The one spelling: `parse_reply(str(reply)) == reply` for parts without line breaks or outer blanks."""
        text = f"REASONING: {self.reasoning}\nACTION: {self.action}"
        return f"{text}\nMESSAGE: {self.message}" if self.message else text


def parse_reply(text: str) -> Reply:
    """Read an answer as it stands.

    A part is a line that begins with its label and a blank. The first of each counts; everything else is ignored. The
    action is what follows the label to the end of the line, to the letter: whether it is one is for the environment
    to say.
    """
    parts = {"REASONING: ": "", "ACTION: ": "", "MESSAGE: ": ""}
    for line in text.split("\n"):
        for label, found in parts.items():
            if line.startswith(label) and not found:
                parts[label] = line[len(label) :]
    return Reply(*parts.values())
