"""What a reward model's scores are worth: accuracy by group, calibration, and correlation with what is really so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from statistics import mean
from typing import Any

from scipy.stats import spearmanr

BINS = 5
"""Of the confidence, which lies between 1/2 and 1."""


def calibration(margins: Sequence[float]) -> dict[str, Any]:
    """Whether a reward model is as often right as it is sure to be.

    Args:
        margins: score of the chosen answer less that of the rejected one. Under Bradley-Terry the model is sure to the
            degree sigmoid(|margin|) that the answer with the higher score is the better one.

    Returns:
        `calibration`: for each filled bin the mean confidence, the share of pairs ranked rightly, and the pairs;
        `calibration_error`: the mean distance between the two, weighed by pairs (Naeini et al. 2015).
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
    """Accuracy and count of pairs within each group.

    Args:
        right: whether each pair was ranked rightly.
        groups: what each pair is, by sort of grouping: `{"kind": "trivial"}`.

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
    """Spearman's rank correlation; 0 where one side is always the same."""
    if len(set(scores)) < 2 or len(set(truth)) < 2:
        return 0.0
    return float(spearmanr(scores, truth).statistic)
