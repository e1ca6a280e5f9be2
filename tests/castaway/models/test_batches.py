"""No group costs more than the budget, and none is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from castaway.models.batches import by_tokens, first_fit


@given(st.lists(st.integers(1, 300)), st.integers(1, 2000))
def test_every_row_is_in_one_group_and_no_group_is_over_the_budget(lengths: list[int], budget: int) -> None:
    groups = by_tokens(lengths, budget)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    assert all(len(group) == 1 or len(group) * max(lengths[i] for i in group) <= budget for group in groups)


def test_rows_of_like_length_go_together() -> None:
    assert by_tokens([10, 100, 12, 90], 200) == [[0, 2], [3, 1]]
    assert by_tokens([10, 100, 12, 90], 400) == [[0, 1, 2, 3]]
    assert by_tokens([500, 3], 100) == [[1], [0]]
    assert by_tokens([], 100) == []


@given(st.lists(st.integers(1, 300)), st.integers(100, 400))
def test_every_piece_is_in_one_bin_and_no_bin_is_too_full(lengths: list[int], width: int) -> None:
    bins = first_fit(lengths, width)
    assert sorted(index for one in bins for index in one) == list(range(len(lengths)))
    assert all(len(one) == 1 or sum(lengths[index] for index in one) <= width for one in bins)


def test_a_piece_goes_into_the_first_bin_with_room() -> None:
    assert first_fit([6, 5, 4, 3, 2], 10) == [[0, 2], [1, 3, 4]]
    assert first_fit([11, 1], 10) == [[0], [1]]
