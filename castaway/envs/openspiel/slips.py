"""Slips of the pen: how instruct models answer a menu in another form than the one that counts.

The tiny base model learns them from its pretraining text, so that it is as unreliable as what it stands in for.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from castaway.chat import Reply


def slip(reply: Reply, random: Random) -> str:
    """The answer with one mistake in it."""
    return random.choice(_SLIPS)(reply)


def _by_name(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}\nACTION: {reply.reasoning.split(' ')[-1]}"


def _in_words(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}\nACTION: move {reply.action}"


def _full_stop(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}\nACTION: {reply.action}."


def _markdown(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}\nACTION: **{reply.action}**"


def _unlabelled(reply: Reply) -> str:
    return f"{reply.reasoning} {reply.action}"


def _reason_only(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}"


_SLIPS: list[Callable[[Reply], str]] = [_by_name, _in_words, _full_stop, _markdown, _unlabelled, _reason_only]
