"""Evaluates the scores of a reward model: accuracy by group, calibration, and rank correlation with the truth."""

from collections.abc import Mapping, Sequence
from math import exp
from statistics import mean
from typing import Any

from scipy.stats import spearmanr

BINS = 5  # number of bins for the confidence, which is between 1/2 and 1


def calibration(margins: Sequence[float]) -> dict[str, Any]:
    """Whether the accuracy of a reward model equals its confidence.

    `margins` are the scores of chosen answers minus those of rejected ones; in the Bradley-Terry model the confidence
    is sigmoid(|margin|). `calibration` has the mean confidence, the accuracy and the number of pairs of each bin that
    has any; `calibration_error` is their mean distance, weighted by pairs (Naeini et al. 2015).
    """
    filled: dict[int, list[tuple[float, bool]]] = {}
    for margin in margins:
        confidence = 1 / (1 + exp(-abs(margin)))
        filled.setdefault(min(BINS - 1, int((confidence - 0.5) * 2 * BINS)), []).append((confidence, margin > 0))
    bins, error = [], 0.0
    for _, rated in sorted(filled.items()):
        confidence, accuracy = mean(one for one, _ in rated), mean(right for _, right in rated)
        bins.append({"confidence": round(confidence, 6), "accuracy": round(accuracy, 6), "pairs": len(rated)})
        error += abs(confidence - accuracy) * len(rated) / len(margins)
    return {"calibration": bins, "calibration_error": round(error, 6)}


def accuracy_by_group(right: Sequence[bool], groups: Sequence[Mapping[str, str]]) -> dict[str, dict[str, Any]]:
    """Accuracy and pairs of each group: `{"kind": {"trivial": {"accuracy": 0.9, "pairs": 10}}}`."""
    by_sort: dict[str, dict[str, list[bool]]] = {}
    for one, names in zip(right, groups, strict=True):
        for sort, name in names.items():
            by_sort.setdefault(sort, {}).setdefault(name, []).append(one)
    return {
        sort: {name: {"accuracy": round(mean(rows), 6), "pairs": len(rows)} for name, rows in sorted(named.items())}
        for sort, named in by_sort.items()
    }


def rank_correlation(scores: Sequence[float], truth: Sequence[float]) -> float:
    """Spearman's rank correlation, from -1 to 1; 0 if all scores, or all true values, are equal."""
    if len(set(scores)) < 2 or len(set(truth)) < 2:
        return 0.0
    return float(spearmanr(scores, truth).statistic)
