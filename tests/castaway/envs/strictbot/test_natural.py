"""The hand-written questions are well formed. What a trained tutor answers to them is measured, never tuned."""

import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from ruamel.yaml import YAML

from castaway.envs.strictbot.question import LEVELS, Kind

FILE = Path(__file__).with_name("natural.yaml")


@pytest.fixture(scope="module")
def questions():
    return YAML(typ="safe", pure=True).load(FILE.read_text("utf-8"))


def test_every_question_has_its_level_and_kind(questions):
    assert len(questions) >= 70
    for question in questions:
        assert question.keys() == {"asked", "fact", "level", "kind"}
        assert LEVELS[question["kind"]] == question["level"]


def test_a_third_of_the_questions_deserves_each_level(questions):
    count = Counter(question["level"] for question in questions)
    assert all(0.3 <= count[level] / len(questions) <= 0.37 for level in (1, 2, 3))
    assert {question["kind"] for question in questions} == set(get_args(Kind))


def test_a_fact_is_one_sentence(questions):
    for question in questions:
        assert re.fullmatch(r"[A-Z0-9][^.!?\n]*\.", question["fact"]), question["fact"]


def test_a_question_is_one_line_of_a_chat_and_holds_no_note(questions):
    for question in questions:
        assert re.fullmatch(r"[^|\n]{5,160}", question["asked"]), question["asked"]


def test_nothing_is_asked_twice(questions):
    for key in ("asked", "fact"):
        seen = Counter(re.sub(r"\W", "", question[key].lower()) for question in questions)
        assert max(seen.values()) == 1


def test_the_file_says_that_it_is_sealed():
    assert "SEALED TEST SET" in FILE.read_text("utf-8").split("- asked")[0]
