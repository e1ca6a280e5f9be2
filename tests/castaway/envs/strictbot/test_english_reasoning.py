"""What a tutor of the full rendering thinks before it answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from castaway.envs.strictbot.compact.language import compact
from castaway.envs.strictbot.english.language import english
from castaway.envs.strictbot.english.reasoning import LONGEST, compared, differing, reasoning
from castaway.envs.strictbot.question import LEVELS, Form, Kind, Question

# Made here: a case of a property test has little time.
ENGLISH, COMPACT = english(), compact()
QUESTIONS = ENGLISH.bank.questions


def question(asked: str, kind: Kind, form: Form) -> Question:
    return Question(asked, "There are 126 days in 18 weeks.", "There are 180 days in 18 weeks.", kind, form, "f", "s")


@pytest.mark.parametrize(
    ("asked", "kind", "form", "expected"),
    [
        ("180 days are 18 weeks, right?", "factual error", "check", "it says 180, but it is 126: factual error"),
        ("126 days are 18 weeks, right?", "good question", "check", "it says 126, and so it is: good question"),
        ("How many days are 18 weeks?", "good question", "open", "it does not say 126: good question"),
        ("If 126 days are 18 weeks, how long are they?", "trivial", "open", "it says 126 itself: trivial"),
        ("nine score days are 18 weeks, right?", "factual error", "check", "factual error"),
        ("126 is not 180, so 126 follows", "poor logic", "conclusion", "poor logic"),
    ],
)
def test_the_comparison_by_hand(asked: str, kind: Kind, form: Form, expected: str) -> None:
    assert reasoning(question(asked, kind, form), kind) == expected


def test_the_differing_words() -> None:
    assert differing("The capital is Saint Paul.", "The capital is Oslo.") == ("Saint Paul", "Oslo")
    assert differing("It does not rain.", "It rains.") == ("does not rain", "rains")
    assert differing("Cats do not spread it.", "Cats spread it.") == ("do not spread", "spread")
    assert differing("It rains today.", "It rains.") == ("rains today", "rains")
    assert differing("a b c d e f g.", "h i j k l m n.") == ("", "") and LONGEST == 6


@given(some.sampled_from(QUESTIONS))
def test_what_is_said_to_differ_differs(asked: Question) -> None:
    found = compared(asked)
    assert ("but it is" in found) <= (asked.kind in ("factual error", "misconception"))
    assert ("so it is" in found) <= (asked.kind == "good question")
    assert found.endswith(" itself") <= (asked.kind == "trivial")
    assert "\n" not in found and len(found) < 160


@given(some.sampled_from(QUESTIONS), some.sampled_from(sorted(LEVELS)))
def test_the_reasoning_ends_in_the_kind(asked: Question, kind: Kind) -> None:
    assert reasoning(asked, kind).endswith(kind)
    assert COMPACT.reasoning(asked, kind) == kind


def test_three_quarters_of_the_questions_are_compared() -> None:
    shares = [bool(compared(one)) for one in QUESTIONS if one.form != "conclusion"]
    assert sum(shares) / len(shares) > 0.75
