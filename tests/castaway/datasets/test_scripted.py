"""Balanced pairs."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.config.errors import CastawayError
from castaway.datasets.scripted import balanced_pairs
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply


def situation(number: object, action: str, role: str = "colonist") -> tuple[Prompt, Reply]:
    return Prompt("Eve", role, ({"role": "user", "content": f"situation {number}"},), None), Reply("aim", action)


@given(
    st.lists(st.sampled_from(["WAIT", "MOVE EAST", "MOVE WEST", "EAT apple"]), min_size=2, max_size=30),
    st.integers(),
    st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=50)
def test_every_action_is_as_often_chosen_as_rejected(actions: list[str], seed: int, plain: float) -> None:
    situations = [situation(number, action) for number, action in enumerate(["WAIT", "MOVE EAST", *actions])]
    pairs = balanced_pairs(situations, 40, Random(seed), plain, "hm")
    assert len(pairs) == 40
    assert Counter(chosen for _, chosen, _ in pairs) == Counter(rejected for _, _, rejected in pairs)
    said = "hm" if plain else "aim"
    right = {prompt.messages[0]["content"]: str(Reply(said, reply.action)) for prompt, reply in situations}
    for prompt, chosen, rejected in pairs:
        assert right[prompt[0]["content"]] == chosen != rejected


def test_the_wrong_action_comes_from_the_same_role() -> None:
    situations = [situation(0, "WAIT"), situation(1, "EAT apple"), situation(2, "SABOTAGE hull", "traitor")]
    pairs = balanced_pairs(situations, 40, Random(0), 0.0, "")
    assert all("SABOTAGE" not in chosen + rejected for _, chosen, rejected in pairs)


def test_a_role_has_its_share_of_the_pairs_however_alike_its_actions_are() -> None:
    crew = [situation(number, f"MOVE {number % 4}") for number in range(80)]
    traitor = [situation(100 + n, "SABOTAGE hull" if n == 0 else "WAIT", "traitor") for n in range(20)]
    pairs = balanced_pairs([*crew, *traitor], 2000, Random(0), 0.0, "")
    share = sum("MOVE" not in chosen for _, chosen, _ in pairs) / len(pairs)
    assert share == pytest.approx(0.2, abs=0.03)


def test_alike_situations_and_roles_with_one_action_each_give_no_pairs() -> None:
    for actions in (["WAIT", "WAIT"], []):
        with pytest.raises(CastawayError, match="different right actions"):
            balanced_pairs([situation(n, action) for n, action in enumerate(actions)], 4, Random(0), 0.0, "")
    with pytest.raises(CastawayError, match="of one role"):
        balanced_pairs([situation(0, "WAIT"), situation(1, "POISON Eve", "traitor")], 4, Random(0), 0.0, "")


@given(st.integers())
@settings(max_examples=20)
def test_pairs_of_like_actions_are_as_balanced(seed: int) -> None:
    actions = ["WAIT", "MOVE EAST", "MOVE WEST", "MOVE EAST", "EAT apple", "WAIT"]
    situations = [situation(number, action) for number, action in enumerate(actions)]
    pairs = balanced_pairs(situations, 40, Random(seed), 0.0, "", hard_negative_fraction=1.0)
    assert {chosen for _, chosen, _ in pairs} == {str(Reply("aim", f"MOVE {way}")) for way in ("EAST", "WEST")}
    assert Counter(chosen for _, chosen, _ in pairs) == Counter(rejected for _, _, rejected in pairs)
    different = [situation(0, "WAIT"), situation(1, "EAT apple")]
    assert len(balanced_pairs(different, 4, Random(seed), 0.0, "", hard_negative_fraction=1.0)) == 4
