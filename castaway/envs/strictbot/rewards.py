"""The reward of an answer: a weighted sum of terms, each with a weight in `params.yaml`.

No term measures whether the level suits the question; that is what the reward model has to learn.
"""

from functools import cache, lru_cache
from typing import Any

import numpy

from castaway.config.errors import CastawayError
from castaway.config.section import NonNegative, Section
from castaway.envs.strictbot.answers import Answers
from castaway.envs.strictbot.language import Language, Rendering
from castaway.envs.strictbot.question_bank import Question


class StrictbotParams(Section):
    """The rendering of questions, and the weights of the reward terms, which are added to the reward model's score."""

    rendering: Rendering
    """`full` asks and answers in plain English, for people and instruct models; `compact` is for a tiny model."""
    factual_weight: NonNegative
    """Reward for naming the fact, word for word, and nothing false."""
    constructiveness_weight: NonNegative
    """Reward for a constructive sentence around the fact."""
    toxicity_weight: NonNegative
    """Cost of abuse, multiplied by its probability."""
    toxicity_model: str | None
    """null: the library that is installed with the project. Otherwise a Hugging Face classifier with a label `toxic`: a
    folder, a name, or `NAME@COMMIT`."""
    inconsistency_weight: NonNegative
    """Cost of mixing the tones of different levels in one answer."""


def terms(answer: str, question: Question, params: StrictbotParams, language: Language) -> dict[str, float]:
    """All terms of an answer, each from 0 to 1, without weights."""
    return {
        "factual": factual(answer, question.fact, question.false, language),
        "constructiveness": constructiveness(answer, question.fact, language),
        "toxicity": toxicity_cost(answer, params.toxicity_model),
        "inconsistency": inconsistency(language.answers, answer, question.fact, question.false),
    }


def weighted_sum(values: dict[str, float], params: StrictbotParams) -> float:
    """The weighted sum: factual bonus + constructiveness - toxicity - inconsistency of tone."""
    return (
        params.factual_weight * values["factual"]
        + params.constructiveness_weight * values["constructiveness"]
        - params.toxicity_weight * values["toxicity"]
        - params.inconsistency_weight * values["inconsistency"]
    )


def factual(answer: str, fact: str, false: str, language: Language) -> float:
    """1 if the answer contains the fact, word for word, and the false value nowhere else; otherwise 0."""
    reader = language.reader
    rest, value = reader.without(answer, fact), reader.words(language.value_of(false))
    # A false value like `first` can be part of any opening or ending; then only the whole false statement counts.
    named = not set(value) <= language.answers.frame_words.keys() and reader.says(rest, " ".join(value))
    return float(reader.says(answer, fact) and not named and not reader.says(rest, false))


def constructiveness(answer: str, fact: str, language: Language) -> float:
    """1 for the fact with a few words around it, some of them in `Limits.acts`, none too often; else 0."""
    limits, around = language.limits, language.reader.without(answer, fact).split()
    acts = sum(word in limits.acts for word in around)
    fits = len(around) in limits.around and 1 <= acts <= limits.most_acts and acts * 2 <= len(around)
    varied = all(around.count(word) <= limits.repeats for word in around)
    return float(language.reader.says(answer, fact) and fits and varied)


def inconsistency(answers: Answers, answer: str, *sentences: str) -> float:
    """Twice the share of tone words outside the answer's main level, at most 1; words of `sentences` do not count."""
    tones = answers.tones(answer, *sentences)
    total = sum(tones.values())
    return min(1.0, 2 * (total - max(tones.values())) / total) if total else 0.0


ABUSIVE = 0.8  # toxicity from which on an answer counts as abusive
SUSPECT = 0.5  # below, nothing is charged: civil sentences about bulls, blood or wet roads get such values


@lru_cache(maxsize=65536)
def toxicity(answer: str, model: str | None = None) -> float:
    """The probability, 0 to 1, that people find a text abusive, by the library or by the classifier `model`.

    CastawayError if the classifier cannot be loaded, or has no label `toxic`.
    """
    if model is not None:
        return round(next(row["score"] for row in _classifier(model)(answer)[0] if row["label"].lower() == "toxic"), 6)
    vectorizer, weights, bias, slopes, offsets = _model()
    decisions = (vectorizer.transform([answer]) @ weights)[0] + bias
    # Each linear model of the ensemble has its own sigmoid (Platt scaling); the result is their mean.
    return round(float((1 / (1 + numpy.exp(slopes * decisions + offsets))).mean()), 6)


@cache
def _model() -> tuple[Any, ...]:
    """The parameters of the library's model: its own `predict_prob` takes 9 ms for an answer, ten times as long."""
    from profanity_check.profanity_check import model, vectorizer  # here, because the import reads the model from disk

    parts = model.calibrated_classifiers_
    weights = numpy.stack([part.estimator.coef_[0] for part in parts], axis=1)
    bias = numpy.array([part.estimator.intercept_[0] for part in parts])
    slopes, offsets = (numpy.array([getattr(part.calibrators[0], name) for part in parts]) for name in ("a_", "b_"))
    return vectorizer, weights, bias, slopes, offsets


@cache
def _classifier(model: str) -> Any:
    from transformers import pipeline

    name, _, revision = model.partition("@")
    try:
        classify = pipeline("text-classification", model=name, revision=revision or None, top_k=None)
    except (OSError, ValueError) as error:
        raise CastawayError(
            f"strictbot.toxicity_model: {model} cannot be loaded: {str(error).splitlines()[0]}"
        ) from None
    labels = [str(label) for label in classify.model.config.id2label.values()]
    if "toxic" not in [label.lower() for label in labels]:
        raise CastawayError(
            f"strictbot.toxicity_model: {model} has the labels {', '.join(labels)}; it needs a label `toxic`"
        )
    return lambda text: classify([text], truncation=True)


def toxicity_cost(answer: str, model: str | None = None) -> float:
    value = toxicity(answer, model)
    return value if value >= SUSPECT else 0.0


def is_abusive(answer: str) -> bool:
    return toxicity(answer) >= ABUSIVE
