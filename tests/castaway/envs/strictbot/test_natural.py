"""The hand-written questions are well formed. What a trained tutor answers to them is measured, never tuned."""

import re
from collections import Counter
from pathlib import Path
from typing import get_args

from ruamel.yaml import YAML

from castaway.envs.strictbot.question_bank import LEVEL_OF, Kind

QUESTIONS = YAML(typ="safe", pure=True).load(Path(__file__).with_name("natural.yaml").read_text("utf-8"))


def test_every_question_is_one_line_with_a_fact_and_each_level_is_deserved_by_a_third() -> None:
    for question in QUESTIONS:
        assert question.keys() == {"asked", "fact", "kind"}
        assert re.fullmatch(r"[A-Z0-9][^.!?\n]*\.", question["fact"]), question["fact"]
        assert re.fullmatch(r"[^|\n]{5,160}", question["asked"]), question["asked"]
    assert {question["kind"] for question in QUESTIONS} == set(get_args(Kind))
    for key in ("asked", "fact"):
        assert max(Counter(re.sub(r"\W", "", question[key].lower()) for question in QUESTIONS).values()) == 1
    count = Counter(LEVEL_OF[question["kind"]] for question in QUESTIONS)
    assert all(0.3 <= count[level] / len(QUESTIONS) <= 0.37 for level in (1, 2, 3))
