"""Rows in trees are read as they would be one by one."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModel

from castaway.models.logprobs import hidden_states_at
from castaway.models.rows import STEP, Rows, by_tokens, first_fit, in_passes, merged, tree_width, trees_of
from tests.castaway.models.test_logprobs import config

ROW = st.lists(st.integers(3, 5), min_size=1, max_size=12)
FAMILIES = ("llama", "qwen2", "qwen3", "gemma", "phi3", "granite")


@given(st.lists(ROW, min_size=1, max_size=9), st.integers(1, 30))
def test_a_tree_holds_every_row_on_a_path_of_its_own_and_nothing_twice(rows: list[list[int]], width: int) -> None:
    trees = merged(rows, width)
    assert sorted(number for tree in trees for number in tree.paths) == list(range(len(rows)))
    for tree in trees:
        assert len(tree.tokens) <= max(width, max(len(rows[number]) for number in tree.paths))
        for number, path in tree.paths.items():
            assert [tree.tokens[place] for place in path] == rows[number]
        assert {place for path in tree.paths.values() for place in path} == set(range(len(tree.tokens)))
        # No two rows share their last token, so that each keeps a place of its own.
        assert len({path[-1] for path in tree.paths.values()}) == len(tree.paths)


@given(st.lists(st.tuples(ROW, st.integers(0, 11)), min_size=2, max_size=6))
def test_no_more_is_shared_than_is_allowed(pairs: list[tuple[list[int], int]]) -> None:
    rows, limits = [row for row, _ in pairs], [min(limit, len(row) - 1) for row, limit in pairs]
    (tree,) = merged(rows, 100, limits)
    for number, path in tree.paths.items():
        own = path[limits[number] :]
        others = {place for other, places in tree.paths.items() if other != number for place in places}
        assert not others & set(own)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_gradients_are_those_of_the_rows_one_by_one(family: str, attention: str) -> None:
    model: Any = AutoModel.from_config(config(family, 256))
    model.set_attn_implementation(attention)
    same = torch.randint(3, 40, (30,)).tolist()
    rows = [[*same, *torch.randint(3, 40, (length,)).tolist()] for length in (4, 9, 1, 6)]
    rows += [rows[0], [7, 8, 9]]
    places = [[len(row) - 1, len(row) // 2] for row in rows]
    found = Rows.of(rows, places, 256)
    assert found.sees is not None and found.tokens.numel() < sum(map(len, rows))
    whole = [model(input_ids=torch.tensor([row])).last_hidden_state[0] for row in rows]
    alone = [one[spots] for one, spots in zip(whole, places, strict=True)]
    results = []
    for states in (torch.stack(alone), hidden_states_at(model, found.lines, found.columns, **found.inputs(model))):
        model.zero_grad()
        (states * torch.linspace(-1, 1, 256)).square().sum().backward()
        results.append([states.detach(), *(weight.grad.clone() for weight in model.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@given(st.integers(0, 9000), st.sampled_from([256, 576, 4096]))
def test_trees_are_as_wide_as_makes_the_work_for_each_row_least(shared: int, hidden_size: int) -> None:
    width = tree_width(shared, hidden_size)
    assert width >= hidden_size
    if 2 * shared <= hidden_size:
        assert width == hidden_size
    elif width > hidden_size:

        def work(tokens: int) -> float:
            return tokens * (6 * hidden_size + tokens) / (tokens - shared)

        # The root of the square is rounded down, and near its least value the work hardly changes.
        assert work(width) <= (1 + 1e-5) * min(work(width - 2), work(width + 2))


def test_rows_that_share_little_are_padded() -> None:
    same = list(range(3, 33))
    assert trees_of([[*same, 1], [*same, 2]], 256)
    assert not trees_of([[3, 4, 5], [4, 5, 6]], 256)
    found = Rows.of([[3, 4, 5], [4, 5]], [[2], [0, 1]], 255)
    assert found.sees is None and found.tokens.tolist() == [[3, 4, 5], [4, 5, 0]]
    assert found.columns.tolist() == [[2, 0], [0, 1]] and found.lines.tolist() == [[0, 0], [1, 1]]


@given(st.lists(st.lists(st.integers(3, 9), min_size=1, max_size=90), min_size=1, max_size=6))
def test_what_a_large_model_reads_has_few_widths(rows: list[list[int]]) -> None:
    found = Rows.of(rows, [[len(row) - 1] for row in rows], 256)
    assert found.tokens.shape[1] % STEP == 0
    widest = max(map(len, rows))
    assert found.sees is not None or found.tokens.shape[1] < widest + STEP
    assert found.tokens[found.lines[:, 0], found.columns[:, 0]].tolist() == [row[-1] for row in rows]


@given(st.lists(ROW, max_size=12), st.integers(1, 40))
def test_every_row_is_in_one_group_and_no_group_is_over_the_budget(rows: list[list[int]], budget: int) -> None:
    for groups in (in_passes(rows, budget), by_tokens([len(row) for row in rows], budget)):
        assert sorted(index for group in groups for index in group) == list(range(len(rows)))
        assert all(len(group) == 1 or len(group) * max(len(rows[i]) for i in group) <= budget for group in groups)


@given(st.lists(st.integers(1, 300)), st.integers(100, 400))
def test_every_piece_is_in_one_bin_and_no_bin_is_too_full(lengths: list[int], width: int) -> None:
    bins = first_fit(lengths, width)
    assert sorted(index for one in bins for index in one) == list(range(len(lengths)))
    assert all(len(one) == 1 or sum(lengths[index] for index in one) <= width for one in bins)
