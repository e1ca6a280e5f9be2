"""The expert and the demonstrator of STRICTBOT, which turn a prompt into a reply."""

from __future__ import annotations

from random import Random

from castaway.envs.strictbot.answers import proper, write
from castaway.envs.strictbot.bank import ORDER
from castaway.envs.strictbot.question import LEVELS
from castaway.envs.strictbot.telling import question_of
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player


def expert(prompt: Prompt) -> Reply:
    """The reply of a perfect tutor, which knows the bank."""
    question = question_of(prompt.observation.asked, prompt.observation.fact)
    return Reply(question.kind, proper(question.level, question.fact))


def demonstrator(random: Random, carelessness: float) -> Player:
    """An imperfect tutor: in a share `carelessness` of its replies kind and level are random, the fact may be false."""
    kinds = sorted({kind for _, kind in ORDER})

    def play(prompt: Prompt) -> Reply:
        question = question_of(prompt.observation.asked, prompt.observation.fact)
        if random.random() >= carelessness:
            return Reply(question.kind, write(question.level, question.fact, random))
        kind = random.choice(kinds)
        fact = question.false if random.random() < 0.1 else question.fact
        return Reply(kind, write(LEVELS[kind], fact, random, ending=random.random() < 0.5))

    return play
