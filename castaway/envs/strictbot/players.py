"""Whole tutors: prompt in, reply out."""

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
    """A tutor who knows the bank."""
    question = question_of(prompt.observation.asked, prompt.observation.fact)
    return Reply(question.kind, proper(question.level, question.fact))


def demonstrator(random: Random, carelessness: float) -> Player:
    """An ordinary tutor: in a share of the answers it does not look, and takes any kind, level and ending."""
    kinds = sorted({kind for _, kind in ORDER})

    def play(prompt: Prompt) -> Reply:
        question = question_of(prompt.observation.asked, prompt.observation.fact)
        if random.random() >= carelessness:
            return Reply(question.kind, write(question.level, question.fact, random))
        kind = random.choice(kinds)
        fact = question.false if random.random() < 0.1 else question.fact
        return Reply(kind, write(LEVELS[kind], fact, random, ending=random.random() < 0.5))

    return play
