"""Slips of the pen: how instruct models break the format in MAROONED, as seen in the wild.

The tiny base model learns them from its pretraining text, so that it is as unreliable as what it stands in for.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from castaway.chat import Reply

_WORDS = {"MOVE": "MOVING", "GATHER": "COLLECT", "WAIT": "CHECK_STATUS", "DEPOSIT": "STORE", "BUILD": "REPAIR"}


def slip(reply: Reply, random: Random) -> str:
    """The answer with one mistake in it."""
    return random.choice(_SLIPS)(reply)


def _verb(reply: Reply) -> str:
    verb, _, rest = reply.action.partition(" ")
    return f"REASONING: {reply.reasoning}\nACTION: {_WORDS.get(verb, 'LOOK')} {rest}".rstrip()


def _lower(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}\nACTION: {reply.action.lower()}"


def _squeezed(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}\nACTION: {reply.action.replace(' ', '')}"


def _markdown(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}\nACTION: **{reply.action}**"


def _unlabelled(reply: Reply) -> str:
    return f"{reply.reasoning} {reply.action}"


def _reason_only(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}"


_SLIPS: list[Callable[[Reply], str]] = [_verb, _lower, _squeezed, _markdown, _unlabelled, _reason_only]
