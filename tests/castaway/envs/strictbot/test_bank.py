"""Both banks are split cleanly, ask for each level in the same ways, and have answers whose level can be read."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.envs.strictbot.language import Language
from castaway.envs.strictbot.question_bank import LEVELS, ORDER, PAIR_IDS, VALIDATION_IDS
from castaway.envs.strictbot.rewards import ABUSIVE
from castaway.tasks.environment import HELD_OUT_START
from tests.castaway.envs.strictbot.renderings import LANGUAGES

COMPACT = LANGUAGES["compact"]


@pytest.fixture(params=["compact", "full"], scope="module")
def language(request: pytest.FixtureRequest) -> Language:
    return LANGUAGES[request.param]


@given(st.integers(0, 2 * HELD_OUT_START - 1), st.integers(0, 10**12))
def test_the_range_of_an_id_decides_the_share(language: Language, task_id: int, place: int) -> None:
    question = language.bank.question_for(task_id, place)
    held_out = task_id >= HELD_OUT_START or task_id in PAIR_IDS
    expected = "held_out" if held_out else "validation" if task_id in VALIDATION_IDS else "train"
    assert language.bank.share_of(question) == expected
    assert (question.form, question.kind) == ORDER[place % len(ORDER)]
    assert expected != "train" or not language.bank.reserved(question)


def test_no_subject_is_in_two_shares(language: Language) -> None:
    shares: dict[tuple[str, str], set[str]] = {}
    for question in language.bank.questions:
        shares.setdefault((question.family, question.subject), set()).add(language.bank.share_of(question))
        assert question.fact != question.false
        assert language.bank.find(question.asked, question.fact) is question
    assert {len(of_it) for of_it in shares.values()} == {1}


def test_each_level_is_asked_for_as_often_and_in_each_form_that_has_it(language: Language) -> None:
    counts = Counter(language.bank.question_for(place, place).level for place in range(1200))
    assert counts == dict.fromkeys(LEVELS, 400)
    for form in {form for form, _ in ORDER}:
        levels = {question.level for question in language.bank.questions if question.form == form}
        assert len(levels) > 1 and 1 in levels


def test_the_level_of_an_answer_can_be_read_off_it_and_none_insults() -> None:
    from profanity_check import predict_prob

    answers, questions = COMPACT.answers, COMPACT.bank.questions
    for question in questions[::97]:
        for level in LEVELS:
            texts = answers.all_answers(level, question.fact)
            assert {answers.read_level(text, question.fact) for text in texts} == {level}
    texts = [answers.all_answers(level, question.fact)[0] for question in questions for level in LEVELS]
    assert max(predict_prob(texts)) < ABUSIVE


def test_sums_are_right() -> None:
    """Arithmetic is worked out again from the words of the questions."""
    work = {"sum": int.__add__, "difference": int.__sub__, "product": int.__mul__, "remainder": int.__mod__}
    checked = 0
    for question in COMPACT.bank.questions:
        if question.family in work and question.form == "open":
            one, other = (int(word) for word in COMPACT.reader.words(question.asked) if word.isdigit())
            assert question.fact == f"it is {work[question.family](one, other)}", question.asked
            checked += 1
    assert checked > 300
