"""Failures come back by how bad they were, until they are mastered."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.rl.failures import FailureBuffer, Task

Told = list[tuple[int, bool, float]]
reports = st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.floats(0, 0.99)), max_size=120)


def task(number: int) -> Task:
    """Ids and seats both tell episodes apart."""
    return number // 2, ("random", "mcts-3")[number % 2]


def after(told: Told, capacity: int = 5, mastery: int = 2, buffer: FailureBuffer | None = None) -> FailureBuffer:
    buffer = buffer or FailureBuffer(capacity, mastery)
    for number, success, score in told:
        buffer.report(task(number), success, 1.0 if success else score)
    return buffer


@given(reports, st.integers(1, 6), st.integers(1, 3))
def test_what_is_kept_is_what_has_failed_and_is_not_mastered(told: Told, capacity: int, mastery: int) -> None:
    buffer = FailureBuffer(capacity, mastery)
    kept: list[int] = []  # the rule, said again: an ordered list of numbers and a streak of each
    streaks: Counter[int] = Counter()
    for number, success, score in told:
        buffer.report(task(number), success, 1.0 if success else score)
        if not success:
            streaks[number] = 0
            if number not in kept:
                kept = [*kept, number][-capacity:]
        elif number in kept:
            streaks[number] += 1
            if streaks[number] == mastery:
                kept.remove(number)
        assert len(buffer) == len(kept) <= capacity
        assert [task(number) in buffer for number in range(13)] == [number in kept for number in range(13)]


@given(reports, st.integers(0, 1000), st.sets(st.integers(0, 12)))
def test_a_draw_is_a_failure_that_is_not_being_played(told: Told, seed: int, playing: set[int]) -> None:
    buffer = after(told)
    busy = {task(number) for number in playing}
    drawn = buffer.draw(Random(seed), busy)
    waiting = [task(number) for number in range(13) if task(number) in buffer and number not in playing]
    assert drawn in waiting if waiting else drawn is None


def test_draws_go_by_severity() -> None:
    buffer, random = FailureBuffer(10, 1), Random(0)
    for number, score in enumerate((0.0, 0.5, 0.9)):
        buffer.report(task(number), False, score)
    drawn = Counter(buffer.draw(random) for _ in range(16_000))
    # 1, 0.5 and 0.1 of 1.6.
    assert [drawn[task(number)] / 16_000 for number in range(3)] == pytest.approx([0.625, 0.3125, 0.0625], abs=0.01)


def test_the_last_failure_says_how_bad_it_is_and_a_success_between_says_nothing() -> None:
    buffer = FailureBuffer(10, 3)
    buffer.report((1, "seat"), False, 0.0)
    buffer.report((1, "seat"), False, 0.75)
    buffer.report((1, "seat"), True, 1.0)
    assert buffer.state()["kept"] == [(1, "seat", 0.25, 1)]
    buffer.report((1, "seat"), False, 0.5)
    assert buffer.state()["kept"] == [(1, "seat", 0.5, 0)]


def test_the_oldest_makes_room() -> None:
    buffer = after([(number, False, 0.0) for number in (1, 2, 3, 1, 4)], capacity=3)
    assert [task(number) in buffer for number in (1, 2, 3, 4)] == [False, True, True, True]


@given(reports, reports, st.integers(0, 100))
def test_it_goes_on_where_it_stopped(first: Told, then: Told, seed: int) -> None:
    whole, stopped = after(first), FailureBuffer(5, 2)
    stopped.load_state(whole.state())
    assert stopped.draw(Random(seed)) == whole.draw(Random(seed))
    assert after(then, buffer=stopped).state() == after(then, buffer=whole).state()


def test_a_smaller_buffer_goes_on_with_the_newest() -> None:
    whole, smaller = after([(number, False, 0.0) for number in range(5)]), FailureBuffer(2, 2)
    smaller.load_state(whole.state())
    assert [task(number) in smaller for number in range(5)] == [False, False, False, True, True]


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_score_out_of_range_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        FailureBuffer(1, 1).report((1, "seat"), False, score)


def test_a_buffer_for_nothing_is_refused() -> None:
    for capacity, mastery in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="expected 1 or more of each"):
            FailureBuffer(capacity, mastery)
