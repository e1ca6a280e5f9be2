"""What a tutor of the full rendering thinks before it answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from castaway.envs.strictbot.compact.language import compact
from castaway.envs.strictbot.english.language import english
from castaway.envs.strictbot.english.phrasing import mended
from castaway.envs.strictbot.english.reasoning import LONGEST, claimed, compared, differing, reasoning
from castaway.envs.strictbot.question import LEVELS, Form, Kind, Question

# Made here: a case of a property test has little time.
ENGLISH, COMPACT = english(), compact()
QUESTIONS = ENGLISH.bank.questions
ASSUMING = {"asked_why", "asked_on"}
"""The families of questions that take for granted what they do not say as a clause."""
NOT_SO = "it says that it is so, which is not so: "


def question(asked: str, kind: Kind, form: Form, doubtful: bool = False) -> Question:
    fact, false = "There are 126 days in 18 weeks.", "There are 180 days in 18 weeks."
    claim = "" if form == "open" else "it is so"
    return Question(asked, fact, false, kind, form, "f", "s", claim=claim, doubtful=doubtful)


@pytest.mark.parametrize(
    ("asked", "kind", "form", "expected"),
    [
        ("180 days are 18 weeks, right?", "factual error", "check", "it says 180, but it is 126: factual error"),
        ("126 days are 18 weeks, right?", "good question", "check", "it says 126, and so it is: good question"),
        ("How many days are 18 weeks?", "good question", "open", "it does not say 126: good question"),
        ("If 126 days are 18 weeks, how long are they?", "trivial", "open", "it says 126 itself: trivial"),
        ("nine score days are 18 weeks?", "factual error", "check", NOT_SO + "factual error"),
        ("180 days are 18 weeks?", "misconception", "belief", NOT_SO + "misconception"),
        ("126 days are 18 weeks?", "good question", "belief", "it says that it is so, which is so: good question"),
        ("so 180?", "poor logic", "conclusion", "it concludes that it is so, which does not follow: poor logic"),
        ("so 126?", "good question", "conclusion", "it concludes that it is so, which follows: good question"),
    ],
)
def test_the_comparison_by_hand(asked: str, kind: Kind, form: Form, expected: str) -> None:
    assert reasoning(question(asked, kind, form), kind) == expected


@pytest.mark.parametrize(
    ("asked", "kind", "form", "claim", "expected"),
    [
        ("Why do bees dance?", "good question", "open", "bees dance", "it says that bees dance, which is so"),
        ("Since they dance, why?", "trivial", "open", "", "it says so itself"),
        ("Why do bees sing?", "misconception", "belief", "bees sing", "it says that bees sing, which is not so"),
    ],
)
def test_explanations_and_assumptions_by_hand(asked: str, kind: Kind, form: Form, claim: str, expected: str) -> None:
    fact = "With a dance a bee tells the others where it has found many flowers."
    found = Question(asked, fact, "Bees sing of joy whenever the sun comes out.", kind, form, "f", "s", claim=claim)
    assert reasoning(found, kind) == f"{expected}: {kind}"


def test_doubts_by_hand() -> None:
    unsure = question("so perhaps 180?", "good question", "conclusion", doubtful=True)
    assert reasoning(unsure, unsure.kind) == "it doubts that it is so, which is open: good question"
    sure = question("so perhaps 126?", "poor logic", "conclusion", doubtful=True)
    assert reasoning(sure, sure.kind) == "it doubts that it is so, which is certain: poor logic"


def test_the_differing_words() -> None:
    assert differing("The capital is Saint Paul.", "The capital is Oslo.") == ("Saint Paul", "Oslo")
    assert differing("It does not rain.", "It rains.") == ("does not rain", "rains")
    assert differing("Cats do not spread it.", "Cats spread it.") == ("do not spread", "spread")
    assert differing("It rains today.", "It rains.") == ("rains today", "rains")
    assert differing("a b c d e f g.", "h i j k l m n.") == ("", "") and LONGEST == 6


@given(some.sampled_from(QUESTIONS))
def test_what_is_said_to_differ_differs(asked: Question) -> None:
    found = compared(asked)
    assert ("but it is" in found) <= (asked.kind == "factual error")
    assert ("so it is" in found) <= (asked.kind == "good question")
    assert found.endswith(" itself") <= (asked.kind == "trivial")
    assert "\n" not in found and len(found) < 160


@given(some.sampled_from([one for one in QUESTIONS if one.form != "open" and one.family not in ASSUMING]))
def test_what_is_claimed_is_a_clause_of_the_question(asked: Question) -> None:
    found = claimed(asked)
    assert asked.claim in found and "\n" not in found and len(found) < 200
    assert found.endswith((" so", " follows", " open")) <= (asked.kind == "good question") or found.endswith("not so")
    if asked.asked != asked.asked.lower():  # not typed carelessly
        assert asked.claim.lower() in mended(asked.asked).lower()


@given(some.sampled_from(QUESTIONS), some.sampled_from(sorted(LEVELS)))
def test_the_reasoning_ends_in_the_kind(asked: Question, kind: Kind) -> None:
    assert reasoning(asked, kind).endswith(kind)
    assert COMPACT.reasoning(asked, kind) == kind


def test_few_questions_are_answered_without_a_reason() -> None:
    shares = [reasoning(one, one.kind) != one.kind for one in QUESTIONS]
    assert sum(shares) / len(shares) > 0.95
