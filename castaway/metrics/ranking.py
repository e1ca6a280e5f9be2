"""Evaluates the scores of a reward model: accuracy by group, calibration, and rank correlation with the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from statistics import mean
from typing import Any

from scipy.stats import spearmanr

BINS = 5
"""Number of bins for the confidence, which is between 1/2 and 1."""


def calibration(margins: Sequence[float]) -> dict[str, Any]:
    """The calibration of a reward model: whether its accuracy equals its confidence.

    Args:
        margins: for each pair, the score of the chosen answer minus that of the rejected one. In the Bradley-Terry
            model, the confidence that the answer with the higher score is better is sigmoid(|margin|).

    Returns:
        `calibration`: for each non-empty bin, the mean confidence, the accuracy and the number of pairs;
        `calibration_error`: the mean distance between the two, weighted by pairs (Naeini et al. 2015).
    """
    filled: dict[int, list[tuple[float, bool]]] = {}
    for margin in margins:
        confidence = 1 / (1 + exp(-abs(margin)))
        place = min(BINS - 1, int((confidence - 0.5) * 2 * BINS))
        filled.setdefault(place, []).append((confidence, margin > 0))
    bins, error = [], 0.0
    for _, found in sorted(filled.items()):
        confidence, accuracy = mean(one for one, _ in found), mean(right for _, right in found)
        bins.append({"confidence": round(confidence, 6), "accuracy": round(accuracy, 6), "pairs": len(found)})
        error += abs(confidence - accuracy) * len(found) / len(margins)
    return {"calibration": bins, "calibration_error": round(error, 6)}


def accuracy_by_group(right: Sequence[bool], groups: Sequence[Mapping[str, str]]) -> dict[str, dict[str, Any]]:
    """Accuracy and number of pairs in each group.

    Args:
        right: whether each pair was ranked correctly.
        groups: the groups of each pair, by kind of grouping: `{"kind": "trivial"}`.

    Returns:
        `{"kind": {"trivial": {"accuracy": 0.9, "pairs": 10}}}`.
    """
    found: dict[str, dict[str, list[bool]]] = {}
    for one, names in zip(right, groups, strict=True):
        for sort, name in names.items():
            found.setdefault(sort, {}).setdefault(name, []).append(one)
    return {
        sort: {name: {"accuracy": round(mean(rows), 6), "pairs": len(rows)} for name, rows in sorted(named.items())}
        for sort, named in found.items()
    }


def rank_correlation(scores: Sequence[float], truth: Sequence[float]) -> float:
    """Spearman's rank correlation, from -1 to 1; 0 if all scores, or all true values, are equal."""
    if len(set(scores)) < 2 or len(set(truth)) < 2:
        return 0.0
    return float(spearmanr(scores, truth).statistic)
