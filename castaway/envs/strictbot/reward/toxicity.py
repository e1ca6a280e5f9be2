"""Toxicity: alt-profanity-check, a linear model of 200,000 labelled texts that comes in its package: no network needed.

It is trained anew for each version of scikit-learn; the pins of the two belong together.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy

ABUSIVE = 0.8
"""From here on an answer counts as abusive."""
SUSPECT = 0.5
"""Below it is what the model says of any civil sentence about bulls, blood or wet roads."""


@lru_cache(maxsize=65536)
def toxicity(answer: str) -> float:
    """How likely people are to find this abusive, from 0 to 1."""
    vectorizer, weights, bias, slopes, offsets = _model()
    decisions = (vectorizer.transform([answer]) @ weights)[0] + bias
    # Each of the ensemble's linear models has a sigmoid of its own (Platt scaling), and the mean of them counts.
    return round(float((1 / (1 + numpy.exp(slopes * decisions + offsets))).mean()), 6)


@cache
def _model() -> tuple[Any, ...]:
    """The library's own model, taken apart: its `predict_prob` takes 9 ms for one answer, this a tenth of it."""
    from profanity_check.profanity_check import model, vectorizer  # read from disk when it is imported

    parts = model.calibrated_classifiers_
    weights = numpy.stack([part.estimator.coef_[0] for part in parts], axis=1)
    bias = numpy.array([part.estimator.intercept_[0] for part in parts])
    slopes, offsets = (numpy.array([getattr(part.calibrators[0], name) for part in parts]) for name in ("a_", "b_"))
    return vectorizer, weights, bias, slopes, offsets


def charged(answer: str) -> float:
    """The term of the reward: the toxicity, or 0 where it is noise."""
    found = toxicity(answer)
    return found if found >= SUSPECT else 0.0


def abusive(answer: str) -> bool:
    """Whether it counts as abusive."""
    return toxicity(answer) >= ABUSIVE
