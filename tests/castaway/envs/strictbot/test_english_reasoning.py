"""What a tutor of the full rendering thinks before it answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from castaway.envs.strictbot.english import claim_check, fix_grammar, reasoning
from castaway.envs.strictbot.question_bank import LEVEL_OF, Form, Kind, Question
from tests.castaway.envs.strictbot.renderings import LANGUAGES

QUESTIONS = LANGUAGES["full"].bank.questions
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


@given(some.sampled_from([one for one in QUESTIONS if one.form != "open" and one.family not in ASSUMING]))
def test_what_is_claimed_is_a_clause_of_the_question(asked: Question) -> None:
    found = claim_check(asked)
    assert asked.claim in found and "\n" not in found and len(found) < 200
    assert found.endswith((" so", " follows", " open")) <= (asked.kind == "good question") or found.endswith("not so")
    if asked.asked != asked.asked.lower():  # not typed carelessly
        assert asked.claim.lower() in fix_grammar(asked.asked).lower()


@given(some.sampled_from(QUESTIONS), some.sampled_from(sorted(LEVEL_OF)))
def test_the_reasoning_ends_in_the_kind(asked: Question, kind: Kind) -> None:
    assert reasoning(asked, kind).endswith(kind)
