"""Held-out ids lie in blocks that share none, and each seed evaluates on a block of its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.config.errors import CastawayError
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
from tests.shipped import PARAMS, ROOT

BLOCKS = st.integers(0, 10 * AUDIT_BLOCKS)


@pytest.mark.parametrize("run", sorted(PARAMS.tasks))
@given(block=BLOCKS, other=BLOCKS)
def test_blocks_have_no_id_in_common_and_none_with_training(run: str, block: int, other: int) -> None:
    ids = task_of(PARAMS, run).training_ids()
    asked = PARAMS.for_run(run).evaluate.episodes
    mine, theirs = (set(held_out_ids(ids, number, asked)) for number in (block, other))
    assert len(mine) == asked
    assert min(mine) >= HELD_OUT_START
    assert mine == theirs if block == other else not mine & theirs


@given(count=st.integers(1, 5000), start=st.integers(0, HELD_OUT_START - BLOCK_IDS))
def test_so_many_ids_are_enough(count: int, start: int) -> None:
    room = HELD_OUT_START - start
    number, most_that_lack = enough(count, room), (count - 1) * HELD_OUT_START // room
    for ids in (range(most_that_lack + 1), range(number), range(number + 1), range(3 * number)):
        assert len(ids_in_a_row(ids, start, count)) == count
    few = range(most_that_lack)
    with pytest.raises(CastawayError, match=rf"the task has {len(few):,} ids, .* {count:,} are asked for; give it at"):
        ids_in_a_row(few, start, count)


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
