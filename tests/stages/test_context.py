"""A stage sees the parameters and folders that it depends on, and no others."""

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from castaway.config.params import UndeclaredError, View, restrict, restricted_values
from castaway.tasks.registry import task_of
from stages.context import Context
from tests.shipped import PARAMS

SOME = {"seed", "sft", "base.heads"}
OF_A_RUN = {"seed", "tasks.marooned.task", "tasks.marooned.game"}


@pytest.mark.parametrize("again", [lambda s: s, copy.deepcopy, copy.copy, lambda s: pickle.loads(pickle.dumps(s))])
def test_what_is_declared_is_as_it_was_and_nothing_else_is_there(again: Any) -> None:
    """In another process too."""
    seen = again(restrict(PARAMS, {*SOME, *OF_A_RUN, "bases.island"}, "ppo@marooned"))
    assert isinstance(seen, View)
    assert (seen.seed, seen.sft, seen.base.heads) == (PARAMS.seed, PARAMS.sft, PARAMS.base.heads)
    assert list(seen.bases) == ["island"] and seen.bases["island"] == PARAMS.bases["island"]
    task = task_of(seen, "marooned")
    assert (task.name, task.game) == ("marooned", PARAMS.tasks["marooned"].game)
    for key, read in {
        "ppo": lambda: seen.ppo,
        "base.layers": lambda: seen.base.layers,
        "bases.answers": lambda: seen.bases["answers"],
        "tasks.marooned.overrides": lambda: seen.tasks["marooned"].overrides,
        "tasks.openspiel": lambda: seen.tasks["openspiel"],
    }.items():
        told = rf"ppo@marooned reads {re.escape(key)}, which dvc\.yaml does not list"
        with pytest.raises(UndeclaredError, match=told):
            read()
    assert not hasattr(seen, "ppo")
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = seen.no_such_thing
    with pytest.raises(AttributeError, match="seed cannot be set"):
        seen.seed = 7


def test_the_values_are_those_that_count_for_the_run() -> None:
    values = restricted_values(restrict(PARAMS.for_run("marooned"), {*OF_A_RUN, "dataset"}, "dataset@marooned"))
    assert values == {
        "seed": PARAMS.seed,
        "dataset": {**PARAMS.dataset.model_dump(), **PARAMS.tasks["marooned"].overrides["dataset"]},
        "tasks": {"marooned": {"task": "marooned", "game": PARAMS.tasks["marooned"].game.model_dump()}},
    }


def test_folders_are_those_of_the_dependencies_and_its_own(tmp_path: Path) -> None:
    readable = frozenset({"data/island/base", "data/marooned/sft"})
    context = Context(
        root=tmp_path, params=PARAMS, run="marooned", base="island", stage="ppo", scratch=tmp_path, readable=readable
    )
    assert context.folder("base") == tmp_path / "data/island/base"
    assert context.folder("sft") == tmp_path / "data/marooned/sft"
    assert context.output == tmp_path / "data/marooned/ppo"
    with pytest.raises(UndeclaredError, match=r"ppo reads data/marooned/dataset, which .* `deps`"):
        context.folder("dataset")
