"""No group costs more than the budget, and none is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from castaway.models.batches import by_tokens


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
