"""A task with few ids: what does not fit or overlaps is told before anything is trained; shipped runs draw as ever."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.config.bases import BaseTextParams
from castaway.config.params import Params
from castaway.envs.marooned.task import Marooned
from castaway.errors import CastawayError
from castaway.tasks import registry
from castaway.tasks.environment import held_out_block, held_out_ids, ids_in_a_row
from castaway.tasks.registry import read_params, task_of
from castaway.tasks.shortage import draws_of, require_ids, shared_blocks, shortages
from castaway.tools.check_task import findings
from stages import evaluate, ppo
from stages.context import Context
from tests.miniature import shrink

ROOT = Path(__file__).parents[3]
SHIPPED = read_params(ROOT / "params.yaml")
FILES = [ROOT / "params.yaml", *sorted((ROOT / "profiles").glob("*.yaml"))]
SEEDS = [1, 2, 10, 49, 99, 100]
TEXT, EPISODES, PAIRS = "bases.games.text.marooned.episodes", "dataset.episodes", "dataset.held_out_pairs"
VALIDATION, PLAYED = "ppo.validation.episodes", "evaluate.episodes (block 15)"


# The shipped runs ----------------------------------------------------------------------------------------------------


def rows_of(ids: Sequence[int], start: int, count: int, shift: int = 0) -> list[int]:
    """The ids that a stage drew before there was a check."""
    first = start * len(ids) // 1_000_000_000
    return [shift + ids[first + number] for number in range(count)]


def drawn_before(params: Params, run: str) -> dict[str, list[int]]:
    """The ids of the stages of a run, in numbers as they stood in the stages before there was a check."""
    own, task, offset = params.for_run(run), task_of(params, run), params.seed % 100 * 1_000_000
    base = params.bases[params.tasks[run].base]
    found = {}
    for name, text in base.text.items() if isinstance(base, BaseTextParams) else ():
        ids = registry.load_task(name, text.game).training_ids()
        found[f"bases.{params.tasks[run].base}.text.{name}.episodes"] = rows_of(ids, offset, text.episodes)
    data, evaluation, ids = own.dataset, own.evaluate, task.training_ids()
    pairs = max(1, data.episodes * data.held_out_pairs // data.pairs)
    found[EPISODES] = rows_of(ids, 200_000_000 + offset, data.episodes)
    found[PAIRS] = rows_of(ids, 400_000_000 + offset, pairs)
    found[VALIDATION] = rows_of(ids, 950_000_000 + offset % 50_000_000, own.ppo.validation.episodes)
    block = evaluation.block + (params.seed - 1) % 10
    seats = len(task.evaluation_seats)
    played = max([evaluation.episodes, evaluation.further_episodes][:seats])
    found[f"evaluate.episodes (block {block})"] = rows_of(ids, block * 1_000_000, played, 1_000_000_000)
    if unseen := task.unseen_ids():
        further = rows_of(unseen, block * 1_000_000, evaluation.further_episodes, 1_000_000_000)
        found[f"evaluate.further_episodes (block {block})"] = further
    return found


def assert_as_ever(params: Params) -> None:
    """Every run of the parameters draws what it drew, in its stages as well, and nothing is reported."""
    for run in params.tasks:
        before = drawn_before(params, run)
        draws = {draw.key: draw for draw in draws_of(params, run)}
        assert {key: draw.ids() for key, draw in draws.items()} == {key: set(ids) for key, ids in before.items()}
        assert list(shortages(params, run)) == [] and shared_blocks(params, run) is None
        require_ids(params, run)
        task, context = task_of(params, run), cast(Context, SimpleNamespace(params=params.for_run(run), run=run))
        assert ppo._validation_ids(context, task) == before[VALIDATION]
        (played,) = [ids for key, ids in before.items() if key.startswith("evaluate.episodes")]
        assert [
            one for one, seat in evaluate.held_out_tasks(context, task) if seat == task.evaluation_seats[0]
        ] == played
        further = [ids for key, ids in before.items() if key.startswith("evaluate.further")]
        assert [[one for one, _ in evaluate._unseen_tasks(context, task)]] == (further or [[]])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_runs_draw_the_same_ids_as_ever(path: Path) -> None:
    params = read_params(path)
    for seed in dict.fromkeys([params.seed, *SEEDS]):
        assert_as_ever(params.model_copy(update={"seed": seed}))


def test_so_does_the_pipeline_in_miniature(tmp_path: Path) -> None:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shrink(tmp_path)
    assert_as_ever(read_params(tmp_path / "params.yaml"))


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
        base = cast(BaseTextParams, SHIPPED.bases["games"])
        own = base.text["marooned"].model_copy(update={"episodes": text})
        run = SHIPPED.tasks["marooned"].model_copy(update={"overrides": {}})
        own_ppo = {"validation": SHIPPED.ppo.validation.model_copy(update={"episodes": checked})}
        changed: dict[str, Any] = {
            "seed": seed,
            "tasks": {"few": run},
            "bases": {"games": base.model_copy(update={"text": {"marooned": own}})},
            "dataset": SHIPPED.dataset.model_copy(update={"episodes": data, "pairs": 100, "held_out_pairs": 100}),
            "ppo": SHIPPED.ppo.model_copy(update=own_ppo),
            "evaluate": SHIPPED.evaluate.model_copy(
                update={"block": 15, "episodes": played, "further_episodes": 1, **more}
            ),
        }
        return SHIPPED.model_copy(update=changed)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(registry, "task_class", lambda name: Few)
        yield params


def drawn(params: Params) -> list[list[int]]:
    """What the stages draw, in their words; it fails where there are too few."""
    task = task_of(params, "few")
    context = cast(Context, SimpleNamespace(params=params, run="few"))
    ids, offset = task.training_ids(), params.seed % 100 * 1_000_000
    text = cast(BaseTextParams, params.bases["games"]).text["marooned"].episodes
    return [
        ids_in_a_row(ids, offset, text),
        ids_in_a_row(ids, 200_000_000 + offset, params.dataset.episodes),
        ids_in_a_row(ids, 400_000_000 + offset, params.dataset.episodes),
        ppo._validation_ids(context, task),
        [task_id for task_id, seat in evaluate.held_out_tasks(context, task) if seat == "crew"],
    ]


def apart(params: Params) -> bool:
    """Whether all stages find their ids, and no two of them the same."""
    try:
        ranges = drawn(params)
    except CastawayError:
        return False
    return not any(set(one) & set(other) for one, other in combinations(ranges, 2))


COUNT = st.integers(1, 300)


@settings(deadline=None)
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
        found = re.search(r"give it at least ([\d,]+), each", sentence)
        assert found and "\n" not in sentence
        needed = int(found.group(1).replace(",", ""))
        assert needed > size and apart(params(needed + more)) and not list(shortages(params(needed + more), "few"))
        with pytest.raises(CastawayError, match=re.escape(sentence)):
            require_ids(params(size), "few")


@pytest.mark.parametrize(
    ("ids", "counts", "faults", "needed"),
    [
        (2000, (600, 200, 90, 300), f"{TEXT} and {EPISODES} share 200", 3000),
        (3000, (100, 700, 100, 300), f"{EPISODES} and {PAIRS} share 100", 3500),
        (1000, (100, 100, 100, 300), f"{VALIDATION} asks for 100 and finds 49", 2041),
        (300, (50, 50, 10, 300), f"{PLAYED} asks for 300 and finds 296", 305),
        (300, (50, 61, 16, 1), f"{VALIDATION} asks for 16 and finds 15, {EPISODES} and {PAIRS} share 1", 327),
    ],
)
def test_what_is_lacking_is_said_with_its_keys(
    few: Numbers, ids: int, counts: tuple[int, ...], faults: str, needed: int
) -> None:
    assert list(shortages(few(range(ids), *counts), "few")) == [
        f"few: the task marooned has {ids:,} ids, too few for seed 1: {faults}; "
        f"give it at least {needed:,}, each of them once, or lower these keys"
    ]


def test_ids_that_come_again_are_found(few: Numbers) -> None:
    (found,) = shortages(few([number % 300 for number in range(30_000)], 20, 20, 20, 20), "few")
    assert f"{EPISODES} and {PAIRS} share 20" in found and "each of them once" in found


def test_blocks_that_share_ids_are_noted_and_not_refused(few: Numbers) -> None:
    params = few(range(5000), 10, 10, 10, 300)
    assert list(shortages(params, "few")) == []
    assert shared_blocks(params, "few") == (
        f"few: {PLAYED} plays 300 ids, but this block of the task marooned has 5, so that seeds share held-out ids; "
        "with 300,000 ids they would not"
    )
    for number in (299_000, 300_000):
        params = few(range(number), 10, 10, 10, 300)
        ids = [set(held_out_ids(range(number), held_out_block(15, seed), 300)) for seed in (1, 2)]
        assert (shared_blocks(params, "few") is None) == (not ids[0] & ids[1]) == (number == 300_000)


def test_the_key_of_an_evaluation_is_that_of_the_most_episodes(few: Numbers) -> None:
    params = few(range(300), played=1, further_episodes=400)
    (found,) = shortages(params, "few")
    assert "evaluate.further_episodes (block 15) asks for 400 and finds 296" in found


def test_a_base_model_that_is_not_made_here_draws_nothing(few: Numbers) -> None:
    params = few(range(300))
    hub = read_params(ROOT / "profiles/llama3.1-8b.yaml")
    given = params.model_copy(update={"bases": {"games": next(iter(hub.bases.values()))}})
    assert [draw.key for draw in draws_of(given, "few")] == [EPISODES, PAIRS, VALIDATION, PLAYED]


def test_the_check_of_a_task_reports_it(few: Numbers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    monkeypatch.setattr("castaway.tools.check_task.task_class", lambda name: Marooned)
    notes: list[str] = []
    for size in (0, 2, 30, 300):
        params = few(range(size), 300, 100, 100, 300)
        monkeypatch.setattr("castaway.tools.check_task.read_params", lambda path, params=params: params)
        found = list(findings("marooned", tmp_path, notes.append))
        assert [line for line in found if "dvc.yaml" not in line] == list(shortages(params, "few"))
        assert any("seeds share held-out ids" in note for note in notes)


def test_no_such_run() -> None:
    with pytest.raises(CastawayError, match="no run 'raft'"):
        require_ids(SHIPPED, "raft")
