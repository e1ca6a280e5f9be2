"""The reward of an answer: a weighted sum of terms, each with its own module and a weight in `params.yaml`.

No term measures whether the level suits the question; that is what the reward model has to learn.
"""

from __future__ import annotations

from castaway.envs.strictbot.language import Language
from castaway.envs.strictbot.params import StrictbotParams
from castaway.envs.strictbot.question import Question
from castaway.envs.strictbot.reward.constructiveness import constructiveness
from castaway.envs.strictbot.reward.factual import factual
from castaway.envs.strictbot.reward.tone import inconsistency
from castaway.envs.strictbot.reward.toxicity import charged


def terms(answer: str, question: Question, params: StrictbotParams, language: Language) -> dict[str, float]:
    """All terms of an answer, each from 0 to 1, without weights."""
    return {
        "factual": factual(answer, question.fact, question.false, language),
        "constructiveness": constructiveness(answer, question.fact, language),
        "toxicity": charged(answer, params.toxicity_model),
        "inconsistency": inconsistency(language.answers, answer, question.fact, question.false),
    }


def weighed(found: dict[str, float], params: StrictbotParams) -> float:
    """The weighted sum: factual bonus + constructiveness - toxicity - inconsistency of tone."""
    return (
        params.factual_weight * found["factual"]
        + params.constructiveness_weight * found["constructiveness"]
        - params.toxicity_weight * found["toxicity"]
        - params.inconsistency_weight * found["inconsistency"]
    )
