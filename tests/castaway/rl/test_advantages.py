"""Dual-discount GAE against numbers worked out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.rl.advantages import Discounts, gae, returns

HALF = Discounts(gamma_turn=0.5, lambda_turn=0.5, gamma_token=0.8, lambda_token=0.5)
NUMBERS = st.floats(-10, 10, allow_nan=False)
TURNS = st.lists(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=4), min_size=1, max_size=5)


def test_one_turn_of_one_token() -> None:
    # A = r - V = 3 - 1
    assert gae([[3.0]], [[1.0]], HALF) == [[2.0]]


def test_two_turns_of_one_token() -> None:
    # second: 4 - 2 = 2
    # first:  delta = 1 + 0.5 * 2 - 3 = -1;  A = -1 + 0.5 * 0.5 * 2 = -0.5
    assert gae([[1.0], [4.0]], [[3.0], [2.0]], HALF) == [[-0.5], [2.0]]


def test_one_turn_of_two_tokens() -> None:
    # last:  5 - 2 = 3
    # first: delta = 0 + 0.8 * 2 - 1 = 0.6;  A = 0.6 + 0.8 * 0.5 * 3 = 1.8
    assert gae([[0.0, 5.0]], [[1.0, 2.0]], HALF) == [pytest.approx([1.8, 3.0])]


def test_what_was_cut_off_is_bootstrapped() -> None:
    # delta = 3 + 0.5 * 4 - 1 = 4, and no advantage follows
    assert gae([[3.0]], [[1.0]], HALF, bootstrap=4.0) == [[4.0]]
    # the first of two turns cut off before the second, whose value is 2: 1 + 0.5 * 2 - 3
    assert gae([[1.0]], [[3.0]], HALF, bootstrap=2.0) == [[-1.0]]


def test_rounds_without_a_turn_pass_all_the_same() -> None:
    # the second turn follows three rounds later: delta = 1 + 0.5^3 * 2 - 3 = -1.75; A = -1.75 + 0.5^3 * 0.5 * 2
    assert gae([[1.0], [4.0]], [[3.0], [2.0]], HALF, [3, 1]) == [[-1.625], [2.0]]
    # and what was cut off: 3 + 0.5^2 * 4 - 1
    assert gae([[3.0]], [[1.0]], HALF, [2], bootstrap=4.0) == [[3.0]]
    # G = 1 + 0.5^3 * 4
    assert returns([[1.0], [4.0]], HALF, [3, 1]) == [[1.5], [4.0]]


def test_two_turns_of_two_tokens() -> None:
    # turn 2, token 2: 4 - 1 = 3
    # turn 2, token 1: delta = -0.1 + 0.8 * 1 - 2 = -1.3;    A = -1.3 + 0.4 * 3 = -0.1
    # turn 1, token 2: delta = 1 + 0.5 * 2 - 3 = -1;         A = -1 + 0.25 * -0.1 = -1.025
    # turn 1, token 1: delta = -0.2 + 0.8 * 3 - 0.5 = 1.7;   A = 1.7 + 0.4 * -1.025 = 1.29
    advantages = gae([[-0.2, 1.0], [-0.1, 4.0]], [[0.5, 3.0], [2.0, 1.0]], HALF)
    assert advantages == [pytest.approx([1.29, -1.025]), pytest.approx([-0.1, 3.0])]


@given(TURNS)
@settings(deadline=None, max_examples=50)
def test_lambda_one_is_monte_carlo(turns: list[list[tuple[float, float]]]) -> None:
    rewards, values = [[r for r, _ in turn] for turn in turns], [[v for _, v in turn] for turn in turns]
    advantages = gae(rewards, values, Discounts(0.9, 1.0, 0.7, 1.0))
    total, first = 0.0, True
    for turn in range(len(turns) - 1, -1, -1):
        for token in range(len(turns[turn]) - 1, -1, -1):
            last = token == len(turns[turn]) - 1
            total = rewards[turn][token] + (0.0 if first else (0.9 if last else 0.7) * total)
            first = False
            assert advantages[turn][token] == pytest.approx(total - values[turn][token], abs=1e-9)


@given(TURNS)
@settings(deadline=None, max_examples=50)
def test_lambda_zero_is_one_step(turns: list[list[tuple[float, float]]]) -> None:
    rewards, values = [[r for r, _ in turn] for turn in turns], [[v for _, v in turn] for turn in turns]
    advantages = gae(rewards, values, Discounts(0.9, 0.0, 0.7, 0.0))
    flat = [(turn, token) for turn in range(len(turns)) for token in range(len(turns[turn]))]
    for (turn, token), after in zip(flat, [*flat[1:], None], strict=True):
        gamma = 0.7 if token + 1 < len(turns[turn]) else 0.9
        following = gamma * values[after[0]][after[1]] if after else 0.0
        expected = rewards[turn][token] + following - values[turn][token]
        assert advantages[turn][token] == pytest.approx(expected, abs=1e-9)


def test_a_reward_of_the_last_day_reaches_the_first_morning() -> None:
    rewards, values = [[0.0, 0.0]] * 9 + [[0.0, 100.0]], [[0.0, 0.0]] * 10
    advantages = gae(rewards, values, Discounts(0.99, 0.95, 1.0, 1.0))
    assert advantages[0][0] == pytest.approx(100 * (0.99 * 0.95) ** 9)


def test_turns_without_tokens_or_of_different_shape_are_refused() -> None:
    for rewards, values in (([[]], [[]]), ([[1.0]], [[1.0, 2.0]]), ([[1.0], [2.0]], [[1.0]])):
        with pytest.raises(ValueError):
            gae(rewards, values, HALF)
    assert gae([], [], HALF) == []
