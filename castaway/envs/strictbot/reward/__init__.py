"""What an answer earns from the task itself, term by term; each is a module, and a weight in the task's parameters.

Whether the level suits the question is not among them: that is what the reward model has to learn.
"""

from __future__ import annotations

from castaway.envs.strictbot.params import StrictbotParams
from castaway.envs.strictbot.question import Question
from castaway.envs.strictbot.reward.constructiveness import constructiveness
from castaway.envs.strictbot.reward.factual import factual
from castaway.envs.strictbot.reward.tone import inconsistency
from castaway.envs.strictbot.reward.toxicity import charged


def terms(answer: str, question: Question, params: StrictbotParams) -> dict[str, float]:
    """Every term, each from 0 to 1, before it is weighed."""
    return {
        "factual": factual(answer, question.fact, question.false),
        "constructiveness": constructiveness(answer, question.fact),
        "toxicity": charged(answer, params.toxicity_model),
        "inconsistency": inconsistency(answer, question.fact, question.false),
    }


def weighed(found: dict[str, float], params: StrictbotParams) -> float:
    """Factual bonus + constructiveness - toxicity - inconsistency of tone."""
    return (
        params.factual_weight * found["factual"]
        + params.constructiveness_weight * found["constructiveness"]
        - params.toxicity_weight * found["toxicity"]
        - params.inconsistency_weight * found["inconsistency"]
    )
