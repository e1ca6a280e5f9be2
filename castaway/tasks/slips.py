"""Format errors ("slips") that instruct models make in any game; a game adds its own.

They are part of the pretraining text of the tiny base model, so that its replies break the format about as often as
those of the instruct models that it replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from castaway.tasks.reply import Reply

Slip = Callable[[Reply], str]
"""Turns a reply into text with one format error in it."""


def one_of(slips: Sequence[Slip]) -> Callable[[Reply, Random], str]:
    """A function that makes one of these format errors, each with the same probability."""

    def slip(reply: Reply, random: Random) -> str:
        """The reply as text, with one format error in it."""
        return random.choice(slips)(reply)

    return slip


def labelled(reasoning: str, action: str) -> str:
    """A reply in the correct format, whatever its parts hold."""
    return f"REASONING: {reasoning}\nACTION: {action}"


def markdown(reply: Reply) -> str:
    """The action in bold (Markdown)."""
    return labelled(reply.reasoning, f"**{reply.action}**")


def unlabelled(reply: Reply) -> str:
    """Reasoning and action on one line, without their labels."""
    return f"{reply.reasoning} {reply.action}"


def reason_only(reply: Reply) -> str:
    """The reasoning alone, without an action."""
    return f"REASONING: {reply.reasoning}"
