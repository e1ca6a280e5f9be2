"""Slips of the pen that instruct models make in any game; a game adds its own.

The tiny base model learns them from its pretraining text, so that it is as unreliable as what it stands in for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from castaway.tasks.reply import Reply

Slip = Callable[[Reply], str]
"""Writes an answer with one mistake in it."""


def one_of(slips: Sequence[Slip]) -> Callable[[Reply, Random], str]:
    """What makes one of them, as likely as any other."""

    def slip(reply: Reply, random: Random) -> str:
        """The answer with one mistake in it."""
        return random.choice(slips)(reply)

    return slip


def labelled(reasoning: str, action: str) -> str:
    """An answer in the form that counts, whatever stands in it."""
    return f"REASONING: {reasoning}\nACTION: {action}"


def markdown(reply: Reply) -> str:
    """The action in bold letters."""
    return labelled(reply.reasoning, f"**{reply.action}**")


def unlabelled(reply: Reply) -> str:
    """Reasoning and action in one line without their labels."""
    return f"{reply.reasoning} {reply.action}"


def reason_only(reply: Reply) -> str:
    """No action at all."""
    return f"REASONING: {reply.reasoning}"
