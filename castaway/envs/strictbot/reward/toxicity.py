"""Toxicity: alt-profanity-check, a linear model of 200,000 labelled texts that comes in its package.

It needs no network, and is trained anew for each version of scikit-learn: the pins of the two belong together. A
stronger model can take its place in what is paid and reported (`strictbot.toxicity_model`).
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy

from castaway.errors import CastawayError

ABUSIVE = 0.8
"""From here on an answer counts as abusive."""
SUSPECT = 0.5
"""Below it is what the model says of any civil sentence about bulls, blood or wet roads."""


@lru_cache(maxsize=65536)
def toxicity(answer: str, model: str | None = None) -> float:
    """How likely people are to find this abusive, from 0 to 1.

    Args:
        answer: the text.
        model: a classifier from Hugging Face in the place of the library, with a label `toxic`: a folder, a name, or a
            name and its commit, `NAME@COMMIT`.

    Raises:
        CastawayError: the classifier cannot be loaded, or has no such label.
    """
    return round(_by_library(answer) if model is None else _by_classifier(answer, model), 6)


def _by_library(answer: str) -> float:
    vectorizer, weights, bias, slopes, offsets = _model()
    decisions = (vectorizer.transform([answer]) @ weights)[0] + bias
    # Each of the ensemble's linear models has a sigmoid of its own (Platt scaling), and the mean of them counts.
    return float((1 / (1 + numpy.exp(slopes * decisions + offsets))).mean())


def _by_classifier(answer: str, model: str) -> float:
    return float(next(row["score"] for row in _classifier(model)(answer)[0] if row["label"].lower() == "toxic"))


@cache
def _model() -> tuple[Any, ...]:
    """The library's own model, taken apart: its `predict_prob` takes 9 ms for one answer, this a tenth of it."""
    from profanity_check.profanity_check import model, vectorizer  # read from disk when it is imported

    parts = model.calibrated_classifiers_
    weights = numpy.stack([part.estimator.coef_[0] for part in parts], axis=1)
    bias = numpy.array([part.estimator.intercept_[0] for part in parts])
    slopes, offsets = (numpy.array([getattr(part.calibrators[0], name) for part in parts]) for name in ("a_", "b_"))
    return vectorizer, weights, bias, slopes, offsets


@cache
def _classifier(model: str) -> Any:
    """A pipeline that gives all labels of a list with one text."""
    from transformers import pipeline

    name, _, revision = model.partition("@")
    try:
        found = pipeline("text-classification", model=name, revision=revision or None, top_k=None)
    except (OSError, ValueError) as error:
        raise CastawayError(
            f"strictbot.toxicity_model: {model} cannot be loaded: {str(error).splitlines()[0]}"
        ) from None
    labels = [str(label) for label in found.model.config.id2label.values()]
    if "toxic" not in [label.lower() for label in labels]:
        raise CastawayError(f"strictbot.toxicity_model: {model} tells {', '.join(labels)}; it needs a label `toxic`")
    return lambda text: found([text], truncation=True)


def charged(answer: str, model: str | None = None) -> float:
    """The term of the reward: the toxicity, or 0 where it is noise."""
    found = toxicity(answer, model)
    return found if found >= SUSPECT else 0.0


def abusive(answer: str) -> bool:
    """Whether the rules of the task refuse it."""
    return toxicity(answer) >= ABUSIVE
