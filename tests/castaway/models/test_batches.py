"""No group costs more than the budget, and none is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from castaway.models.batches import best_width, by_tokens, first_fit, rows_of_batch


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


def test_the_best_width_leaves_little_room_and_is_narrow() -> None:
    # One of 140 fits into 140 tokens, two into 280: with more attention.
    assert best_width([140] * 64, (140, 256, 280), batch_size=16, hidden_size=128) == 140
    # One of 140 beside one of 60 fills 200 tokens; in narrower bins, those of 60 would be padded to 140 or more.
    assert best_width([140, 60] * 32, (140, 200, 256), batch_size=16, hidden_size=4096) == 200


def test_a_batch_holds_about_as_many_pieces_in_rows() -> None:
    assert rows_of_batch(16, 100, 200) == 8
    assert rows_of_batch(1, 1, 9) == 1
