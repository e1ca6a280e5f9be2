"""Variants that are kept for evaluation."""

import pytest

from castaway.envs.openspiel.ids import episode_of
from castaway.envs.openspiel.task import OpenSpiel
from castaway.errors import CastawayError
from castaway.tasks.environment import held_out_ids
from castaway.tasks.registry import task_of
from castaway.tasks.task import Task
from tests.castaway.rl.small import shipped


def task_with(*unseen: str) -> OpenSpiel:
    return OpenSpiel(task_of(shipped(), "openspiel").game.model_copy(update={"unseen": [*unseen]}))


def test_the_ids_are_of_the_named_variants_in_turn() -> None:
    ids = held_out_ids(task_with("nim 1 2 3", "hex 5x5").unseen_ids(), 4, 8)
    found = [episode_of(task_id) for task_id in ids]
    assert [(one.played.name, one.played.variants[one.variant].name) for one in found] == [
        ("nim", "1 2 3"), ("hex", "5x5")
    ] * 4  # fmt: skip
    assert all(one.split for one in found) and len({*ids}) == 8


def test_without_names_there_are_none() -> None:
    assert not task_with().unseen_ids()
    assert not Task.unseen_ids(task_with())


@pytest.mark.parametrize("name", ["nim 1 3 5 7", "nim"])
def test_what_is_trained_is_not_unseen(name: str) -> None:
    with pytest.raises(CastawayError, match=r"game\.unseen names a variant of nim that a stage"):
        task_with(name).unseen_ids()
