"""The difference of two players on the same episodes."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.metrics.intervals import Z95
from castaway.metrics.paired import paired_difference

OUTCOMES = st.dictionaries(st.integers(0, 60), st.booleans())


def test_by_hand() -> None:
    """Ten episodes: four that only the one won, one that only the other won."""
    one = {number: number < 7 for number in range(10)}
    other = {number: number in (0, 1, 2, 9) for number in range(10)}
    found, count = paired_difference(one, other)
    # p1 = 5 / 12, p2 = 2 / 12: the centre is 1/4.
    half = Z95 * sqrt((7 / 12 - 1 / 16) / 12)
    assert count == 10
    assert found.value == pytest.approx(0.3)
    assert (found.low, found.high) == (pytest.approx(0.25 - half), pytest.approx(0.25 + half))


def test_only_episodes_of_both_count() -> None:
    found, count = paired_difference({1: True, 2: True, 3: False}, {2: True, 3: False, 4: True})
    assert (found.value, count) == (0.0, 2)
    found, count = paired_difference({1: True}, {2: True})
    assert (found.low, found.high, count) == (-1.0, 1.0, 0)


@given(one=OUTCOMES, other=OUTCOMES)
def test_the_other_way_round_the_sign_changes(one: dict[int, bool], other: dict[int, bool]) -> None:
    (there, count), (back, same) = paired_difference(one, other), paired_difference(other, one)
    assert count == same
    assert (there.value, there.low, there.high) == (
        pytest.approx(-back.value), pytest.approx(-back.high), pytest.approx(-back.low)
    )  # fmt: skip
    assert -1 <= there.low < there.high <= 1


@given(one=OUTCOMES)
def test_nothing_is_better_than_itself(one: dict[int, bool]) -> None:
    found, _ = paired_difference(one, one)
    assert found.value == 0 and found.low < 0 < found.high
