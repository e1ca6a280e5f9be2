"""The baselines of the reward model find a leak where there is one, and none in balanced pairs."""

from collections.abc import Callable
from random import Random

import pytest

from castaway.datasets.jsonl import Row, pair
from castaway.datasets.scripted import balanced_pairs
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply
from stages.reward_model import answer_only_accuracy, prompt_only_accuracy
from tests.castaway.datasets.test_scripted import situation

ACTIONS = ["WAIT", "MOVE EAST", "MOVE WEST", "EAT apple", "BUILD hull", "GATHER WOOD_1"]


def situations(random: Random, count: int) -> list[tuple[Prompt, Reply]]:
    """Prompts that say in other words which action is right."""
    signs = [random.randrange(len(ACTIONS)) for _ in range(count)]
    return [situation(f"{sign} {random.randrange(99)}", ACTIONS[sign]) for sign in signs]


def balanced(seed: int, count: int, change: Callable[[str, str], tuple[str, str]] = lambda *pair: pair) -> list[Row]:
    random = Random(seed)
    rows = balanced_pairs(situations(random, count), count, random, 0.0, "")
    return [pair(prompt, *change(chosen, rejected)) for prompt, chosen, rejected in rows]


@pytest.mark.parametrize(
    "leak",
    [
        lambda chosen, rejected: ("BUILD hull", rejected.replace("BUILD hull", "WAIT")),
        lambda chosen, rejected: (f"{chosen} now", rejected),
    ],
    ids=["of the answer", "of style"],
)
def test_a_planted_leak_is_found(leak: Callable[[str, str], tuple[str, str]]) -> None:
    assert answer_only_accuracy(balanced(1, 600, leak), balanced(2, 200, leak), seed=1) > 0.9


def test_a_single_pair_teaches_nothing() -> None:
    one = pair([{"role": "user", "content": "a"}], "ACTION: LEFT", "ACTION: RIGHT")
    assert answer_only_accuracy([one], [one], seed=1) == prompt_only_accuracy([one], [one], seed=1) == 0.5


@pytest.mark.filterwarnings("error")
def test_balanced_pairs_give_nothing_away() -> None:
    """Without a warning: a solver that stops before it is done gives figures that depend on the processor."""
    train, held_out = balanced(1, 1000), balanced(2, 400)
    assert 0.4 <= answer_only_accuracy(train, held_out, seed=1) <= 0.6
    assert 0.4 <= prompt_only_accuracy(train, held_out, seed=1) <= 0.6
