"""The expert and the demonstrator of STRICTBOT, which turn a prompt into a reply."""

from __future__ import annotations

from random import Random

from castaway.envs.strictbot.bank import ORDER
from castaway.envs.strictbot.language import Language
from castaway.envs.strictbot.question import LEVELS
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player


def expert(language: Language, prompt: Prompt) -> Reply:
    """The reply of a perfect tutor, which knows the bank."""
    question = language.question_behind(prompt.observation)
    reasoning = language.reasoning(question, question.kind)
    return Reply(reasoning, language.answers.proper(question.level, question.fact, question.form))


def demonstrator(language: Language, random: Random, carelessness: float) -> Player:
    """An imperfect tutor, which does not look at the question in a share `carelessness` of its replies.

    Kind and level are random then, and the fact may be false.
    """
    kinds = sorted({kind for _, kind in ORDER})
    write = language.answers.write

    def play(prompt: Prompt) -> Reply:
        question = language.question_behind(prompt.observation)
        if random.random() >= carelessness:
            reasoning = language.reasoning(question, question.kind)
            return Reply(reasoning, write(question.level, question.fact, random, form=question.form))
        kind = random.choice(kinds)
        fact = question.false if random.random() < 0.1 else question.fact
        return Reply(kind, write(LEVELS[kind], fact, random, ending=random.random() < 0.5, form=question.form))

    return play
