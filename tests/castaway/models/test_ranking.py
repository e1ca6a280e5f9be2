"""Figures of a reward model by hand."""

from math import log

import pytest

from castaway.models.ranking import calibration, rank_correlation

SURE = log(0.9 / 0.1)
"""A margin at which the model is sure to 90 %."""


def test_confidence_is_set_beside_accuracy() -> None:
    found = calibration([SURE] * 8 + [-SURE] * 2 + [0.0, 1e-9])
    assert found["calibration"] == [
        {"confidence": 0.5, "accuracy": 0.5, "pairs": 2},
        {"confidence": 0.9, "accuracy": 0.8, "pairs": 10},
    ]
    assert found["calibration_error"] == pytest.approx(10 / 12 * 0.1, abs=1e-6)


def test_rank_correlation_by_hand() -> None:
    # 1 - 6 sum d^2 / n (n^2 - 1) = 1 - 6 * 2 / 60
    assert rank_correlation([1.0, 2.0, 3.0, 4.0], [10.0, 30.0, 20.0, 40.0]) == pytest.approx(0.8)
    assert rank_correlation([1.0, 2.0], [5.0, 5.0]) == 0.0
