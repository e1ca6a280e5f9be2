"""Text for pretraining the tiny base model: the same question answered otherwise, and slips of the pen."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from castaway.chat import Reply
from castaway.envs.strictbot.answers import write
from castaway.envs.strictbot.bank import find
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.question import LEVELS


def practice(observation: Observation, random: Random, count: int) -> list[Reply]:
    """`count` answers; for half of them the kind of question was guessed, so that all levels are learned."""
    right = find(observation.asked, observation.fact).kind
    kinds = sorted(LEVELS)
    chosen = [right if number % 2 == 0 else random.choice(kinds) for number in range(count)]
    return [Reply(kind, write(LEVELS[kind], observation.fact, random, random.random() < 0.5)) for kind in chosen]


def slip(reply: Reply, random: Random) -> str:
    """The answer with one mistake in it, as instruct models make them."""
    return random.choice(_SLIPS)(reply)


def _unlabelled(reply: Reply) -> str:
    return f"{reply.reasoning} {reply.action}"


def _reason_only(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}"


def _answer_label(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}\nANSWER: {reply.action}"


def _twice(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}\nACTION: {reply.action} {reply.action}"


_SLIPS: list[Callable[[Reply], str]] = [_unlabelled, _reason_only, _answer_label, _twice]
