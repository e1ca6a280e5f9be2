"""The mean over seeds."""

from math import sqrt

import pytest

from castaway.metrics.over_seeds import T95, over_seeds


def test_by_hand() -> None:
    found = over_seeds([1.0, 2.0, 3.0])
    assert found.value == 2
    assert found.high - 2 == pytest.approx(4.303 / sqrt(3))
    assert 2 - found.low == pytest.approx(4.303 / sqrt(3))


def test_equal_builds_leave_no_spread() -> None:
    found = over_seeds([0.5, 0.5])
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_beyond_the_table_the_quantile_goes_on_smoothly() -> None:
    values = [float(number) for number in range(len(T95) + 2)]
    found = over_seeds(values)
    # With 16 degrees of freedom it is 2.120.
    spread = sqrt(sum((value - found.value) ** 2 for value in values) / (len(values) - 1) / len(values))
    assert (found.high - found.value) / spread == pytest.approx(2.120, rel=2e-3)
