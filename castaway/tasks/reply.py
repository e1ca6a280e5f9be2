"""The format of a reply, `REASONING:` and then `ACTION:`, each on its own line, and replies that break it ("slips").

Slips are part of the pretraining text of the tiny base model, so that its replies break the format about as often as
those of the instruct models that it replaces. Those here occur in any game; a game adds its own.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """The parts of a reply; a missing part is an empty text."""

    reasoning: str
    action: str

    def __str__(self) -> str:
        """The reply as text; `parse_reply` reads it back unchanged if no part holds a line break or outer spaces."""
        return labelled(self.reasoning, self.action)

    @classmethod
    def read(cls, text: str) -> "Reply":
        """The reply that `str` writes as this text."""
        return parse_reply(text)


def labelled(reasoning: str, action: str) -> str:
    return f"REASONING: {reasoning}\nACTION: {action}"


def parse_reply(text: str) -> Reply:
    """Read a reply without correcting anything in it; the environment's rules decide whether the action is legal.

    A part is what follows its label and a space at the beginning of a line, up to its end; the first line counts.
    """
    parts = {"REASONING: ": "", "ACTION: ": ""}
    # Not `splitlines`, which also breaks at characters that an action may hold, such as U+2028.
    for line in text.split("\n"):
        for label, part in parts.items():
            if line.startswith(label) and not part:
                parts[label] = line[len(label) :]
    return Reply(*parts.values())


def markdown(reply: Reply) -> str:
    return labelled(reply.reasoning, f"**{reply.action}**")


def unlabelled(reply: Reply) -> str:
    return f"{reply.reasoning} {reply.action}"


def reason_only(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}"
