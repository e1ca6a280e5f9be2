"""Which model may become the champion."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.config.sections import GateParams
from castaway.tasks.intervals import Z95
from castaway.tracking.registry import judge, paired_difference

OUTCOMES = st.dictionaries(st.integers(0, 60), st.booleans())
GATE = GateParams(success_rate=0.5, invalid_rate=0.1)
GOOD = {"success_rate_low": 0.55, "invalid_rate_high": 0.05}


def outcomes(won: int, count: int = 200) -> dict[int, bool]:
    return {number: number < won for number in range(count)}


def test_thresholds_alone_decide_where_there_is_no_champion() -> None:
    verdict = judge(GATE, GOOD, outcomes(120), None)
    assert verdict.passed and str(verdict) == "there was no champion"
    refused = judge(GATE, {"success_rate_low": 0.45, "invalid_rate_high": 0.2}, outcomes(100), None)
    assert refused.refusals == (
        "success may be 45.0 %, and gate.success_rate is 50.0 %",
        "invalid replies may be 20.0 %, and gate.invalid_rate is 10.0 %",
    )


def test_a_champion_is_replaced_by_a_model_that_is_better_for_certain() -> None:
    assert judge(GATE, GOOD, outcomes(150), outcomes(120)).passed
    same = judge(GATE, GOOD, outcomes(120), outcomes(120))
    assert not same.passed
    assert "success +0.0 points" in str(same) and "on 200 ids, expected more than 0.0 for certain" in str(same)
    assert not judge(GATE, GOOD, outcomes(121), outcomes(120)).passed
    assert not judge(GATE, GOOD, outcomes(90), outcomes(120)).passed


def test_a_margin_accepts_a_little_less() -> None:
    gate = GATE.model_copy(update={"margin": 0.05})
    assert judge(gate, GOOD, outcomes(120), outcomes(120)).passed
    assert not judge(gate, GOOD, outcomes(105), outcomes(120)).passed
    other = {number + 1000: False for number in range(200)}
    assert "evaluated on other ids" in str(judge(GATE, GOOD, outcomes(200), other))


def test_a_difference_by_hand() -> None:
    """Ten episodes: four that only the one won, one that only the other won."""
    one = {number: number < 7 for number in range(10)}
    difference, count = paired_difference(one, {number: number in (0, 1, 2, 9) for number in range(10)})
    # p1 = 5 / 12, p2 = 2 / 12: the centre is 1/4.
    half = Z95 * sqrt((7 / 12 - 1 / 16) / 12)
    assert count == 10
    assert difference.value == pytest.approx(0.3)
    assert (difference.low, difference.high) == (pytest.approx(0.25 - half), pytest.approx(0.25 + half))


@given(one=OUTCOMES, other=OUTCOMES)
def test_the_other_way_round_the_sign_changes(one: dict[int, bool], other: dict[int, bool]) -> None:
    (there, count), (back, same) = paired_difference(one, other), paired_difference(other, one)
    assert count == same
    assert (there.value, there.low, there.high) == (
        pytest.approx(-back.value), pytest.approx(-back.high), pytest.approx(-back.low)
    )  # fmt: skip
    assert -1 <= there.low < there.high <= 1
