"""What a task lacks; of one with few ids, what does not fit or overlaps is told before anything is trained."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.config.bases import BaseTextParams
from castaway.config.errors import CastawayError
from castaway.config.params import Params
from castaway.envs.marooned.task import Marooned
from castaway.tasks import registry
from castaway.tasks.environment import held_out_block, held_out_ids, ids_in_a_row
from castaway.tasks.registry import read_params, task_of
from castaway.tools.check_task import require_ids, shortages
from tests.shipped import PARAMS, ROOT

FILES = [ROOT / "params.yaml", *sorted((ROOT / "profiles").glob("*.yaml"))]
TEXT, EPISODES, PAIRS = "bases.island.text.marooned.episodes", "dataset.episodes", "dataset.held_out_pairs"
VALIDATION, PLAYED = "ppo.validation.episodes", "evaluate.episodes (block 80)"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_runs_have_enough_ids(path: Path) -> None:
    params = read_params(path)
    for seed in (params.seed, 49, 99):
        seeded = params.model_copy(update={"seed": seed})
        assert [one for run in params.tasks for one in shortages(seeded, run)] == []


# Tasks with few ids --------------------------------------------------------------------------------------------------

Numbers = Callable[..., Params]
"""Makes parameters of one run, `few`, by the ids of its task, the seed, and what its stages draw."""


@pytest.fixture(scope="module")
def few() -> Iterator[Numbers]:
    """One run of MAROONED with such ids and numbers of episodes; as many held-out pairs as pairs."""
    ids: list[Sequence[int]] = [()]

    class Few(Marooned):
        """Of as many ids as the test says."""

        def training_ids(self) -> Sequence[int]:
            return ids[0]

    def params(
        of: Sequence[int], text: int = 1, data: int = 1, checked: int = 1, played: int = 1, seed: int = 1, **more: Any
    ) -> Params:
        ids[0] = of
        base = cast(BaseTextParams, PARAMS.bases["island"])
        own = base.text["marooned"].model_copy(update={"episodes": text})
        run = PARAMS.tasks["marooned"].model_copy(update={"overrides": {}})
        own_ppo = {"validation": PARAMS.ppo.validation.model_copy(update={"episodes": checked})}
        asked = {"block": 15, "episodes": played, "further_episodes": 1}
        changed: dict[str, Any] = {
            "seed": seed,
            "tasks": {"few": run},
            "bases": {"island": base.model_copy(update={"text": {"marooned": own}})},
            "dataset": PARAMS.dataset.model_copy(update={"episodes": data, "pairs": 100, "held_out_pairs": 100}),
            "ppo": PARAMS.ppo.model_copy(update=own_ppo),
            "evaluate": PARAMS.evaluate.model_copy(update={**asked, **more}),
        }
        return PARAMS.model_copy(update=changed)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(registry, "task_class", lambda name: Few)
        yield params


def drawn(params: Params) -> list[list[int]]:
    """What the stages draw, with the places in numbers; it fails where there are too few."""
    ids, offset = task_of(params, "few").training_ids(), params.seed % 100 * 1_000_000
    return [
        ids_in_a_row(ids, offset, cast(BaseTextParams, params.bases["island"]).text["marooned"].episodes),
        ids_in_a_row(ids, 200_000_000 + offset, params.dataset.episodes),
        ids_in_a_row(ids, 400_000_000 + offset, params.dataset.episodes),
        ids_in_a_row(ids, 950_000_000 + offset % 50_000_000, params.ppo.validation.episodes),
        held_out_ids(ids, held_out_block(params.evaluate.block, params.seed), params.evaluate.episodes),
    ]


def apart(params: Params) -> bool:
    """Whether all stages have their ids, and no two of them the same."""
    try:
        ranges = drawn(params)
    except CastawayError:
        return False
    return not any(set(one) & set(other) for one, other in combinations(ranges, 2))


COUNT = st.integers(1, 300)


@given(
    size=st.integers(0, 4000),
    first=st.integers(0, 500),
    step=st.integers(1, 5),
    counts=st.tuples(COUNT, COUNT, COUNT, COUNT),
    seed=st.integers(0, 120),
    more=st.integers(0, 3000),
)
def test_ranges_are_apart_if_and_only_if_nothing_is_reported(
    few: Numbers, size: int, first: int, step: int, counts: tuple[int, int, int, int], seed: int, more: int
) -> None:
    def params(number: int) -> Params:
        return few(range(first, first + number * step, step), *counts, seed=seed)

    reported = list(shortages(params(size), "few"))
    assert apart(params(size)) == (not reported)
    if reported:
        (sentence,) = reported
        needed = int(re.findall(r"give it at least ([\d,]+), each", sentence)[0].replace(",", ""))
        assert needed > size and apart(params(needed + more)) and not list(shortages(params(needed + more), "few"))
        with pytest.raises(CastawayError, match=re.escape(sentence)):
            require_ids(params(size), "few")


def test_ids_that_come_again_are_found(few: Numbers) -> None:
    (sentence,) = shortages(few([number % 300 for number in range(30_000)], 20, 20, 20, 20), "few")
    assert f"{EPISODES} and {PAIRS} share 20" in sentence and "each of them once" in sentence
