"""Balanced pairs, and scripted play as data."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.datasets.jsonl import write_rows
from castaway.datasets.scripted import (
    Demonstration,
    Pair,
    balanced_pairs,
    play_scripted,
    read_demonstrations,
    read_pairs,
)
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.envs.marooned.players import demonstrator
from castaway.errors import CastawayError
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply


def situation(number: int, action: str, role: str = "colonist") -> tuple[Prompt, Reply]:
    return Prompt("Eve", role, ({"role": "user", "content": f"situation {number}"},), None), Reply("aim", action)


@given(
    st.lists(st.sampled_from(["WAIT", "MOVE EAST", "MOVE WEST", "EAT apple"]), min_size=2, max_size=30), st.integers()
)
@settings(deadline=None, max_examples=50)
def test_every_action_is_as_often_chosen_as_rejected(actions: list[str], seed: int) -> None:
    situations = [situation(number, action) for number, action in enumerate(["WAIT", "MOVE EAST", *actions])]
    pairs = balanced_pairs(situations, 40, Random(seed), 0.0, "")
    assert len(pairs) == 40
    assert Counter(pair.chosen for pair in pairs) == Counter(pair.rejected for pair in pairs)
    right = {prompt.messages[0]["content"]: str(reply) for prompt, reply in situations}
    for pair in pairs:
        assert right[pair.messages[0]["content"]] == pair.chosen != pair.rejected


def test_an_odd_count_is_rounded_down() -> None:
    assert len(balanced_pairs([situation(0, "WAIT"), situation(1, "EAT apple")], 7, Random(0), 0.0, "")) == 6


def test_the_wrong_action_comes_from_the_same_role() -> None:
    situations = [situation(0, "WAIT"), situation(1, "EAT apple"), situation(2, "SABOTAGE hull", "traitor")]
    pairs = balanced_pairs(situations, 40, Random(0), 0.0, "")
    assert all("SABOTAGE" not in pair.chosen + pair.rejected for pair in pairs)


def test_a_role_has_its_share_of_the_pairs_however_alike_its_actions_are() -> None:
    crew = [situation(number, f"MOVE {number % 4}") for number in range(80)]
    traitor = [situation(100 + n, "SABOTAGE hull" if n == 0 else "WAIT", "traitor") for n in range(20)]
    pairs = balanced_pairs([*crew, *traitor], 2000, Random(0), 0.0, "")
    share = sum("MOVE" not in pair.chosen for pair in pairs) / len(pairs)
    assert share == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("actions", [["WAIT", "WAIT"], ["WAIT"], []])
def test_alike_situations_give_no_pairs(actions: list[str]) -> None:
    with pytest.raises(CastawayError, match="different right actions"):
        balanced_pairs([situation(n, action) for n, action in enumerate(actions)], 4, Random(0), 0.0, "")


def test_plain_pairs_bear_the_same_reasoning() -> None:
    situations = [situation(0, "WAIT"), situation(1, "EAT apple")]
    pairs = balanced_pairs(situations, 40, Random(0), 1.0, "hm")
    assert {answer for pair in pairs for answer in (pair.chosen, pair.rejected)} == {
        "REASONING: hm\nACTION: WAIT",
        "REASONING: hm\nACTION: EAT apple",
    }


@given(st.integers())
@settings(deadline=None, max_examples=20)
def test_pairs_of_like_actions_are_as_balanced(seed: int) -> None:
    actions = ["WAIT", "MOVE EAST", "MOVE WEST", "MOVE EAST", "EAT apple", "WAIT"]
    situations = [situation(number, action) for number, action in enumerate(actions)]
    pairs = balanced_pairs(situations, 40, Random(seed), 0.0, "", alike_share=1.0)
    assert {pair.chosen for pair in pairs} == {str(Reply("aim", f"MOVE {way}")) for way in ("EAST", "WEST")}
    assert Counter(pair.chosen for pair in pairs) == Counter(pair.rejected for pair in pairs)
    different = [situation(0, "WAIT"), situation(1, "EAT apple")]
    assert len(balanced_pairs(different, 4, Random(seed), 0.0, "", alike_share=1.0)) == 4


def test_roles_with_one_action_each_give_no_pairs() -> None:
    with pytest.raises(CastawayError, match="of one role"):
        balanced_pairs([situation(0, "WAIT"), situation(1, "POISON Eve", "traitor")], 4, Random(0), 0.0, "")


def test_scripted_play_is_the_same_each_time() -> None:
    def play() -> list[tuple[str, str, str]]:
        turns = play_scripted(
            MaroonedEnvironment("skiff", "compact"), "all", range(3), lambda random: demonstrator(random, 0.4)
        )
        return [(prompt.agent, prompt.messages[-1]["content"], str(reply)) for prompt, reply in turns]

    assert play() == play()
    assert len(play()) > 100


def test_rows_come_back_from_disk_whatever_characters_they_hold(tmp_path: Path) -> None:
    messages = ({"role": "user", "content": "a\u2028b\x85c\n\u00e4"},)
    pairs, shown = [Pair(messages, "WAIT", "SAY \u2029")] * 2, [Demonstration(messages, "x\x0by", "colonist")]
    write_rows(tmp_path / "pairs.jsonl", pairs)
    write_rows(tmp_path / "demonstrations.jsonl", shown)
    assert read_pairs(tmp_path / "pairs.jsonl") == pairs
    assert read_demonstrations(tmp_path / "demonstrations.jsonl") == shown
