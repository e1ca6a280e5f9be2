"""A stage sees the parameters that it depends on, and no others."""

import copy
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from castaway.tasks.registry import read_params, task_of
from flows.restricted import RestrictedContext, UndeclaredError, View, restrict, restricted_values

PARAMS = read_params(Path(__file__).parents[2] / "params.yaml")
SOME = {"seed", "sft", "base.heads"}
OF_A_RUN = {"seed", "tasks.marooned.task", "tasks.marooned.game"}


def test_declared_parameters_are_as_they_were() -> None:
    seen = restrict(PARAMS, SOME, "sft@marooned")
    assert seen.seed == PARAMS.seed
    assert seen.sft is PARAMS.sft, "a section that is depended on as a whole is itself"
    assert seen.base.heads == PARAMS.base.heads


def test_of_named_sections_those_that_are_declared_are_there() -> None:
    seen = restrict(PARAMS, {"bases.games"}, "base@games")
    assert list(seen.bases) == ["games"]
    assert seen.bases["games"] is PARAMS.bases["games"]
    assert "games" in seen.bases and "answers" not in seen.bases
    with pytest.raises(UndeclaredError, match=r"base@games reads bases\.answers, which dvc\.yaml does not list"):
        _ = seen.bases["answers"]


def test_a_run_sees_its_own_game_and_no_other() -> None:
    seen = restrict(PARAMS, OF_A_RUN, "dataset@marooned")
    task = task_of(seen, "marooned")
    assert (task.name, task.game) == ("marooned", PARAMS.tasks["marooned"].game)
    with pytest.raises(UndeclaredError, match=r"dataset@marooned reads tasks\.marooned\.overrides, which"):
        _ = seen.tasks["marooned"].overrides
    with pytest.raises(UndeclaredError, match=r"dataset@marooned reads tasks\.openspiel, which"):
        _ = seen.tasks["openspiel"]


def test_others_are_not_there() -> None:
    seen = restrict(PARAMS, SOME, "sft@marooned")
    with pytest.raises(UndeclaredError, match=r"sft@marooned reads ppo, which dvc\.yaml does not list in its `params`"):
        _ = seen.ppo
    with pytest.raises(UndeclaredError, match=r"sft@marooned reads base\.layers, which"):
        _ = seen.base.layers
    assert not hasattr(seen, "ppo")
    assert not hasattr(seen, "no_such_thing")
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = seen.no_such_thing  # type: ignore[attr-defined]


def test_what_is_seen_does_not_change() -> None:
    seen = restrict(PARAMS, SOME, "sft@marooned")
    with pytest.raises(AttributeError, match="seed cannot be set"):
        seen.seed = 7  # type: ignore[misc]
    assert seen.seed == PARAMS.seed


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda seen: pickle.loads(pickle.dumps(seen))])
def test_another_process_sees_the_same(again: Any) -> None:
    seen = again(restrict(PARAMS, {*SOME, *OF_A_RUN}, "ppo@marooned"))
    assert isinstance(seen, View)
    assert (seen.seed, seen.sft) == (PARAMS.seed, PARAMS.sft)
    assert seen.tasks["marooned"].game == PARAMS.tasks["marooned"].game
    with pytest.raises(UndeclaredError, match=r"ppo@marooned reads base\.layers, which"):
        _ = seen.base.layers


def test_the_values_are_those_that_count_for_the_run() -> None:
    values = restricted_values(restrict(PARAMS.for_run("marooned"), {*OF_A_RUN, "dataset"}, "dataset@marooned"))
    assert values == {
        "seed": PARAMS.seed,
        "dataset": {**PARAMS.dataset.model_dump(), **PARAMS.tasks["marooned"].overrides["dataset"]},
        "tasks": {"marooned": {"task": "marooned", "game": PARAMS.tasks["marooned"].game.model_dump()}},
    }


def nothing(step: int, values: Mapping[str, float]) -> None:
    """Nobody listens."""


def test_folders_are_those_of_the_dependencies_and_its_own(tmp_path: Path) -> None:
    readable = frozenset({"data/games/base", "data/marooned/sft"})
    context = RestrictedContext(
        root=tmp_path,
        params=PARAMS,
        run="marooned",
        base="games",
        stage="ppo",
        log=nothing,
        scratch=tmp_path,
        observe=nothing,
        trace=lambda name, inputs, outputs, began, ended: None,
        device="cpu",
        readable=readable,
        original=tmp_path,
    )
    assert context.folder("base") == tmp_path / "data/games/base"
    assert context.folder("sft") == tmp_path / "data/marooned/sft"
    assert context.output == tmp_path / "data/marooned/ppo"
    with pytest.raises(UndeclaredError, match=r"ppo reads data/marooned/dataset, which .* `deps`"):
        context.folder("dataset")
