"""A stage sees the parameters that it depends on, and no others."""

import copy
from collections.abc import Mapping
from pathlib import Path

import pytest

from castaway.config.params import Params
from castaway.tasks.registry import read_params
from flows.restricted import RestrictedContext, UndeclaredError, restrict

PARAMS = read_params(Path(__file__).parents[2] / "params.yaml")


def test_declared_parameters_are_as_they_were() -> None:
    seen = restrict(PARAMS, {"seed", "sft", "base.model"}, "sft@marooned")
    assert isinstance(seen, Params)
    assert seen.seed == PARAMS.seed
    assert seen.sft == PARAMS.sft
    assert seen.base.model == PARAMS.base.model
    assert copy.deepcopy(seen).sft == PARAMS.sft


def test_of_named_sections_those_that_are_declared_are_there() -> None:
    seen = restrict(PARAMS, {"bases.games"}, "base@games")
    assert seen.bases == {"games": PARAMS.bases["games"]}


def test_others_are_not_there() -> None:
    seen = restrict(PARAMS, {"seed", "sft", "base.model"}, "sft@marooned")
    with pytest.raises(UndeclaredError, match=r"sft@marooned reads ppo, which dvc\.yaml does not list in its `params`"):
        _ = seen.ppo
    with pytest.raises(UndeclaredError, match=r"sft@marooned reads base\.layers, which"):
        _ = seen.base.layers
    assert not hasattr(seen, "ppo")
    assert not hasattr(seen, "no_such_thing")
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = seen.no_such_thing  # type: ignore[attr-defined]


def nothing(step: int, values: Mapping[str, float]) -> None:
    """Nobody listens."""


def test_folders_are_those_of_the_dependencies_and_its_own(tmp_path: Path) -> None:
    readable = frozenset({"data/games/base", "data/marooned/sft"})
    context = RestrictedContext(
        tmp_path, PARAMS, "marooned", "games", "ppo", nothing, tmp_path, nothing, nothing, readable
    )
    assert context.folder("base") == tmp_path / "data/games/base"
    assert context.folder("sft") == tmp_path / "data/marooned/sft"
    assert context.output == tmp_path / "data/marooned/ppo"
    with pytest.raises(UndeclaredError, match=r"ppo reads data/marooned/dataset, which .* `deps`"):
        context.folder("dataset")
