"""An answer that repeats itself is recognised, and an ordinary one is not."""

from hypothesis import given
from hypothesis import strategies as st

from castaway.tools.loops import LONGEST, loops

PIECE = st.lists(st.integers(0, 5), min_size=1, max_size=LONGEST)


@given(st.lists(st.integers(0, 5), max_size=20), PIECE, st.integers(12, 15))
def test_a_piece_over_and_over_is_a_loop(before: list[int], piece: list[int], times: int) -> None:
    assert loops([*before, *piece * times])


@given(st.lists(st.integers(0, 10_000), max_size=60, unique=True), st.integers(1, 3))
def test_a_few_repetitions_are_no_loop(tokens: list[int], times: int) -> None:
    assert not loops(tokens[:8] * times)
    assert not loops(tokens)


def test_numbers_by_hand() -> None:
    assert loops([7] * 12) and not loops([7] * 11)
    assert loops([1, 2, 3] * 4) and not loops([1, 2, 3] * 4 + [4])
