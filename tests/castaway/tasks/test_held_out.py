"""Held-out ids lie in blocks that share none, and each seed evaluates on a block of its own."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.errors import CastawayError
from castaway.tasks.environment import (
    AUDIT_BLOCKS,
    BLOCK_IDS,
    HELD_OUT_START,
    enough,
    held_out_block,
    held_out_ids,
    ids_in_a_row,
)
from castaway.tasks.registry import read_params, task_of

ROOT = Path(__file__).parents[3]
SHIPPED = read_params(ROOT / "params.yaml")
BLOCKS = st.integers(0, 10 * AUDIT_BLOCKS)


@pytest.mark.parametrize("run", sorted(SHIPPED.tasks))
@settings(deadline=None)
@given(block=BLOCKS, other=BLOCKS)
def test_blocks_have_no_id_in_common_and_none_with_training(run: str, block: int, other: int) -> None:
    ids = task_of(SHIPPED, run).training_ids()
    asked = SHIPPED.for_run(run).evaluate.episodes
    mine, theirs = (set(held_out_ids(ids, number, asked)) for number in (block, other))
    assert len(mine) == asked
    assert min(mine) >= HELD_OUT_START
    assert mine == theirs if block == other else not mine & theirs


def test_the_first_ids_of_some_blocks() -> None:
    starts = [held_out_ids(range(HELD_OUT_START), block, 1) for block in (0, 4, 999, 1000, 2001)]
    assert starts == [
        [HELD_OUT_START],
        [HELD_OUT_START + 4 * BLOCK_IDS],
        [HELD_OUT_START + 999 * BLOCK_IDS],
        [2 * HELD_OUT_START],
        [3 * HELD_OUT_START + BLOCK_IDS],
    ]


@given(count=st.integers(1, 5000), start=st.integers(0, HELD_OUT_START - BLOCK_IDS))
def test_so_many_ids_are_enough(count: int, start: int) -> None:
    room = HELD_OUT_START - start
    number, most_that_lack = enough(count, room), (count - 1) * HELD_OUT_START // room
    for ids in (range(most_that_lack + 1), range(number), range(number + 1), range(3 * number)):
        assert len(ids_in_a_row(ids, start, count)) == count
    few = range(most_that_lack)
    with pytest.raises(CastawayError, match=rf"the task has {len(few):,} ids, .* {count:,} are asked for; give it at"):
        ids_in_a_row(few, start, count)


def test_where_ids_are_lacking_is_said() -> None:
    with pytest.raises(CastawayError) as caught:
        ids_in_a_row(range(300), 951_000_000, 100)
    assert str(caught.value) == (
        "the task has 300 ids, 15 of them from 95.1% of the way on, where 100 are asked for; "
        "give it at least 2,041, or ask for fewer"
    )
    with pytest.raises(
        CastawayError, match=r"298 of them from the start of block 7 on, .* give it at least 303, or ask"
    ):
        held_out_ids(range(300), 7, 300)
    with pytest.raises(CastawayError, match=r"the task has 0 ids, 0 of them from the start of block 1000 on"):
        held_out_ids((), 1000, 1)
    with pytest.raises(CastawayError, match=r"0 of them from 100\.0% .* start below 1,000,000,000"):
        ids_in_a_row(range(300), HELD_OUT_START, 1)


def test_seeds_play_blocks_of_their_own() -> None:
    assert [held_out_block(4, seed) for seed in (1, 2, 3, 10, 11)] == [4, 5, 6, 13, 4]
    assert held_out_block(990, 0) < AUDIT_BLOCKS, "seed 0 plays the last of the ten"


def test_no_parameters_of_the_project_play_a_block_for_audits() -> None:
    files = [ROOT / "params.yaml", *(ROOT / "profiles").glob("*.yaml"), *(ROOT / "benchmarks/profiles").rglob("*.yaml")]
    for path in files:
        params = read_params(path)
        for run in params.tasks:
            evaluate = params.for_run(run).evaluate
            assert held_out_block(evaluate.block, params.seed) < AUDIT_BLOCKS and not evaluate.audit, path.name
