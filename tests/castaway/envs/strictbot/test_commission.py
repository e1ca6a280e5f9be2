"""What a teacher is asked to write for training, and what of it is not taken."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from castaway.envs.strictbot.commission import KINDS, Commission
from castaway.envs.strictbot.compact.language import compact
from castaway.envs.strictbot.question import LEVELS
from castaway.tasks.registry import read_params, task_of
from castaway.tasks.reply import parse_reply
from tests.castaway.teacher.writing import exercise

BANK = compact().bank
COMMISSION = Commission(task_of(read_params(Path(__file__).parents[4] / "params.yaml"), "strictbot").make())


@pytest.mark.parametrize("number", range(12))
def test_a_good_exercise_becomes_a_demonstration_and_pairs(number: int) -> None:
    kind = KINDS[number % len(KINDS)]
    given = exercise(number, kind)
    found = COMMISSION.read(number, json.dumps(given))
    right = given[{1: "help", 2: "challenge", 3: "correction"}[LEVELS[kind]]]
    assert (found.reply.reasoning, found.reply.action) == (kind, right)
    assert (found.prompt.observation.asked, found.prompt.observation.fact) == (given["asked"], given["fact"])
    assert found.prompt.messages[-1]["content"].startswith(f"asked {given['asked']} ?\n")
    assert {parse_reply(chosen).action for _, chosen, _ in found.pairs} == {right}
    rejected = [parse_reply(answer).action for _, _, answer in found.pairs]
    assert len(set(rejected)) == 3
    assert right not in rejected
    assert right.replace(given["fact"], given["false"]) in rejected


def test_a_third_of_the_requests_is_for_each_level() -> None:
    assert Counter(LEVELS[kind] for kind in KINDS) == {1: 2, 2: 2, 3: 2}


def test_requests_differ_and_show_nothing_that_is_held_out() -> None:
    train = {question.asked for question in BANK.questions if BANK.share_of(question) == "train"}
    shown = [json.loads(COMMISSION.request(number)[1]["content"].split("\n")[1]) for number in range(300)]
    assert {one["example"]["asked"] for one in shown} <= train
    assert len({json.dumps(one) for one in shown}) == 300


def test_every_question_of_the_bank_counts_as_known() -> None:
    assert all(
        COMMISSION.identity_of(question.asked.upper() + "?") in COMMISSION.known for question in BANK.questions[::97]
    )


BAD: list[tuple[int, dict[str, Any], str]] = [
    (0, {"fact": 3}, "fact"),
    (0, {"note": "more"}, "note"),
    (0, {"fact": "Porto"}, "fact is no short"),
    (0, {"false": "it is Turin"}, "the same"),
    (0, {"asked": "is it"}, "fewer than 3"),
    (0, {"asked": "where is the home of ship number 9"}, "does not name what is false"),
    (0, {"asked": "is it Lyon or Turin and not Lyon"}, "names the fact"),
    (4, {"asked": "where does ship number 4 come from"}, "does not name the fact"),
    (1, {"fact": "it is chance", "help": "gladly, it is chance"}, "perhaps"),
    (0, {"correction": "that is false"}, "does not say the fact"),
    (0, {"correction": "it is Turin, you are an idiot"}, "does not insult"),
    (0, {"correction": "it is Turin and it is not Lyon"}, "more than one answer"),
    (0, {"help": "no, that is wrong, it is Turin so please correct it"}, "begins like a firm correction"),
    (0, {"help": "it is Turin\nreally"}, "help"),
    (0, {"help": "x" * 201}, "help"),
]


@pytest.mark.parametrize(("number", "changed", "reason"), BAD)
def test_what_is_no_exercise_is_refused_with_a_reason(number: int, changed: dict[str, Any], reason: str) -> None:
    text = json.dumps({**exercise(number, KINDS[number]), **changed})
    with pytest.raises(ValueError, match=reason):
        COMMISSION.read(number, text)


@pytest.mark.parametrize("text", ["", "Gladly!", "[]", "null", "{", '{"asked": "x"}'])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^[a-z ]+: "):
        COMMISSION.read(0, text)
