"""What a teacher is asked to write for training, and what of it is not taken."""

import json
from typing import Any

import pytest

from castaway.envs.strictbot.exercise_writer import KINDS, ExerciseWriter
from castaway.envs.strictbot.question_bank import LEVEL_OF
from castaway.tasks.reply import parse_reply
from tests.castaway.envs.strictbot.renderings import LANGUAGES, TASKS
from tests.castaway.teacher.writing import exercise

BANK = LANGUAGES["compact"].bank
WRITER = ExerciseWriter(TASKS["compact"].make())


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_a_good_exercise_becomes_a_demonstration_and_pairs(number: int) -> None:
    kind = KINDS[number]
    given = exercise(number, kind)
    found = WRITER.read(number, json.dumps(given))
    right = given[{1: "help", 2: "challenge", 3: "correction"}[LEVEL_OF[kind]]]
    assert (found.reply.reasoning, found.reply.action) == (kind, right)
    assert (found.prompt.observation.asked, found.prompt.observation.fact) == (given["asked"], given["fact"])
    assert found.prompt.messages[-1]["content"].startswith(f"asked {given['asked']} ?\n")
    assert {parse_reply(chosen).action for _, chosen, _ in found.pairs} == {right}
    rejected = [parse_reply(answer).action for _, _, answer in found.pairs]
    assert len(set(rejected)) == 3
    assert right not in rejected
    assert right.replace(given["fact"], given["false"]) in rejected


def test_requests_differ_and_show_nothing_that_is_held_out() -> None:
    train = {question.asked for question in BANK.train}
    shown = [json.loads(WRITER.request(number)[1]["content"].split("\n")[1]) for number in range(300)]
    assert {one["example"]["asked"] for one in shown} <= train
    assert len({json.dumps(one) for one in shown}) == 300
    assert all(WRITER.identity_of(question.asked.upper() + "?") in WRITER.known for question in BANK.questions[::97])


BAD: list[tuple[int, dict[str, Any], str]] = [
    (0, {"fact": 3}, "fact"),
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
    (0, {"help": "x" * 201}, "help"),
]


@pytest.mark.parametrize(("number", "changed", "reason"), BAD)
def test_what_is_no_exercise_is_refused_with_a_reason(number: int, changed: dict[str, Any], reason: str) -> None:
    text = json.dumps({**exercise(number, KINDS[number]), **changed})
    with pytest.raises(ValueError, match=reason):
        WRITER.read(number, text)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"asked": "x"}'])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^[a-z ]+: "):
        WRITER.read(0, text)
