"""Held-out ids lie in blocks that share none, and each seed evaluates on a block of its own."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.tasks.environment import AUDIT_BLOCKS, BLOCK_IDS, HELD_OUT_START, held_out_block, held_out_ids
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
