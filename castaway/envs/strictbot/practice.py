"""Extra text for pretraining the tiny base model: other answers to the same question, and format errors."""

from __future__ import annotations

from random import Random

from castaway.envs.strictbot.language import Language
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.question import LEVELS
from castaway.tasks.reply import Reply
from castaway.tasks.slips import labelled, one_of, reason_only, unlabelled

CORRECTED = 0.1
"""Share of the answers that state something false, then `no` and the fact; to write `no` a model must compare."""


def practice(language: Language, observation: Observation, random: Random, count: int) -> list[Reply]:
    """`count` replies; for every second one the kind of question is random, so that all levels are learned."""
    question = language.question_behind(observation)
    kinds = sorted(LEVELS)
    chosen = [question.kind if number % 2 == 0 else random.choice(kinds) for number in range(count)]
    corrected = f"{question.false} no, {question.fact}"
    said = [corrected if random.random() < CORRECTED else question.fact for _ in chosen]
    return [
        Reply(kind, language.answers.write(LEVELS[kind], text, random, random.random() < 0.5, question.form))
        for kind, text in zip(chosen, said, strict=True)
    ]


def _answer_label(reply: Reply) -> str:
    return f"REASONING: {reply.reasoning}\nANSWER: {reply.action}"


def _twice(reply: Reply) -> str:
    return labelled(reply.reasoning, f"{reply.action} {reply.action}")


slip = one_of([unlabelled, reason_only, _answer_label, _twice])
