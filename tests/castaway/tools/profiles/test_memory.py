"""The estimated memory follows how rows are laid out, and is near the measured one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchmarks.memory import Case, estimate, peak
from castaway.models.rows import trees_of
from castaway.tools.profiles.architecture import KNOWN
from castaway.tools.profiles.memory import Trunk, drawing, laid_out, learning, reading

NEAR = 0.25
"""How far the estimate may be off."""
SIZES = KNOWN["smollm2-135m"]


@given(rows=some.integers(1, 12), shared=some.integers(0, 80), own=some.integers(2, 90), hidden=some.integers(128, 400))
def test_rows_are_laid_out_as_the_stages_do_it(rows: int, shared: int, own: int, hidden: int) -> None:
    random = Random(rows)
    beginning = [random.randrange(10**6) for _ in range(shared)]
    # Each begins with another token after what they share.
    all_rows = [
        [*beginning, 10**7 + number, *(random.randrange(10**6) for _ in range(own - 1))] for number in range(rows)
    ]
    trees = trees_of(all_rows, hidden)
    longest = shared + own
    expected = len(trees) * max(len(tree.tokens) for tree in trees) if trees else rows * longest
    assert laid_out(rows, shared, longest, hidden) == expected


@given(tokens=some.integers(1, 10**5), more=some.integers(1, 10**5), small=some.booleans(), again=some.booleans())
def test_more_tokens_never_need_less(tokens: int, more: int, small: bool, again: bool) -> None:
    trunk = Trunk(SIZES, 2 if small else 4, again)
    assert learning(trunk, tokens + more, 16, 0) > learning(trunk, tokens, 16, 0)
    assert reading(trunk, tokens + more, 1) > reading(trunk, tokens, 1)
    assert drawing(trunk, 1, tokens + more, 1) > drawing(trunk, 1, tokens, 1)


@given(tokens=some.integers(500, 10**5), small=some.booleans())
def test_checkpointing_saves_memory(tokens: int, small: bool) -> None:
    trunk = Trunk(SIZES, 2 if small else 4, checkpointing=False, on_gpu=True)
    again = Trunk(SIZES, trunk.bytes, checkpointing=True, on_gpu=True)
    assert learning(again, tokens, 16, 0) < learning(trunk, tokens, 16, 0)


def test_logits_are_bounded() -> None:
    trunk = Trunk(SIZES, 4, checkpointing=False)
    assert trunk.chunk(10**7) == trunk.chunk(10**4) > trunk.chunk(10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        Case("sft", 6, "float32", False, 8, 0, 125, 40),
        Case("ppo", 6, "float32", False, 16, 0, 100, 40),
        Case("sample", 6, "float32", False, 64, 70, 60, 6),
    ],
    ids=lambda case: case.what,
)
def test_the_estimate_is_near_the_measured_peak(case: Case) -> None:
    assert estimate(case) == pytest.approx(peak(case), rel=NEAR)
