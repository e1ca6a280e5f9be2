"""The bank is wide, without near-duplicates, split cleanly, and asks everything in the same words."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.envs.strictbot.answers import LEVELS
from castaway.envs.strictbot.bank import ORDER, PAIR_IDS, VALIDATION_IDS
from castaway.envs.strictbot.compact.language import compact
from castaway.envs.strictbot.compact.questions import read
from castaway.envs.strictbot.question import Question
from castaway.envs.strictbot.reward.toxicity import ABUSIVE
from castaway.tasks.environment import HELD_OUT_START

BANK, ANSWERS, words = compact().bank, compact().answers, compact().reader.words
FRAMES = {form: [frame.split("{0}") for frame in frames] for form, frames in read("asking").items()}


def content(question: Question) -> str:
    """What a question is about: its words without the frame that they stand in."""
    cores = [
        question.asked.removeprefix(before).removesuffix(after)
        for before, after in FRAMES[question.form]
        if question.asked.startswith(before) and question.asked.endswith(after)
    ]
    return min(cores, key=len)


def test_it_is_wide_enough() -> None:
    bank = BANK.questions
    assert len({question.asked for question in bank}) == len(bank) >= 5000
    assert len({question.family for question in bank}) >= 60
    assert {question.kind for question in bank} == {kind for _, kind in ORDER}


def test_a_third_of_the_questions_deserves_each_level() -> None:
    counts = Counter(BANK.question_for(place, place).level for place in range(1200))
    assert counts == dict.fromkeys(LEVELS, 400)


def test_no_question_is_another_in_other_words() -> None:
    """No two of the same form say the same in different frames."""
    for form in {form for form, _ in ORDER}:
        found = Counter(content(question) for question in BANK.questions if question.form == form)
        assert [text for text, count in found.items() if count > 1] == []


def test_no_two_questions_are_the_same_words_in_another_order() -> None:
    """Except where the order is what matters: who is taller than whom, and 7 hours past 4 or 4 past 7."""
    found: dict[frozenset[tuple[str, int]], list[Question]] = {}
    for question in BANK.questions:
        key = frozenset(Counter(words(content(question))).items())
        found.setdefault(key, []).append(question)
    twins = [same for same in found.values() if len(same) > 1]
    assert all(len({question.fact for question in same}) == len(same) for same in twins)
    assert sum(len(same) for same in twins) < 0.06 * len(BANK.questions)


def test_facts_and_falsehoods_differ_and_are_short() -> None:
    for question in BANK.questions:
        assert question.fact != question.false
        assert len(question.asked) <= 130 and len(words(question.fact)) <= 20


@given(st.integers(0, HELD_OUT_START - 1), st.integers(0, 10**12))
def test_only_the_ids_of_pairs_and_of_tuning_draw_what_training_must_not(task_id: int, place: int) -> None:
    question = BANK.question_for(task_id, place)
    expected = "validation" if task_id in VALIDATION_IDS else "held_out" if task_id in PAIR_IDS else "train"
    assert BANK.share_of(question) == expected
    assert expected != "train" or not BANK.reserved(question)


@given(st.integers(HELD_OUT_START, 2 * HELD_OUT_START - 1), st.integers(0, 10**12))
def test_held_out_ids_draw_nothing_else(task_id: int, place: int) -> None:
    assert BANK.share_of(BANK.question_for(task_id, place)) == "held_out"


def test_no_subject_is_on_two_sides() -> None:
    sides: dict[tuple[str, str], set[str]] = {}
    for question in BANK.questions:
        sides.setdefault((question.family, question.subject), set()).add(BANK.share_of(question))
    assert {len(found) for found in sides.values()} == {1}


def test_a_thousand_held_out_ids_are_a_thousand_questions_half_of_new_families() -> None:
    drawn = [BANK.question_for(HELD_OUT_START + number, HELD_OUT_START + number) for number in range(1000)]
    assert len({question.asked for question in drawn}) == 1000
    trained = {question.family for question in BANK.questions if BANK.share_of(question) == "train"}
    assert 0.2 < sum(question.family not in trained for question in drawn) / 1000 < 0.6


def test_the_form_of_a_question_does_not_tell_its_level() -> None:
    for form in {form for form, _ in ORDER}:
        levels = {question.level for question in BANK.questions if question.form == form}
        assert len(levels) > 1 and 1 in levels


def test_every_question_has_answers_of_all_levels_and_none_insults() -> None:
    from profanity_check import predict_prob

    texts = [ANSWERS.all_answers(level, question.fact)[0] for question in BANK.questions for level in LEVELS]
    levels = [
        ANSWERS.read_level(text, question.fact) for text, question in zip(texts[::3], BANK.questions, strict=True)
    ]
    assert set(levels) == {1}
    frames = [answer for level in LEVELS for answer in ANSWERS.all_answers(level, "ripe lemons are yellow")]
    assert max(predict_prob(texts + frames)) < ABUSIVE


@pytest.mark.parametrize("level", LEVELS)
def test_the_level_of_an_answer_can_be_read_off_it(level: int) -> None:
    for question in BANK.questions[::97]:
        assert {ANSWERS.read_level(answer, question.fact) for answer in ANSWERS.all_answers(level, question.fact)} == {
            level
        }


def test_sums_are_right() -> None:
    """Arithmetic is worked out again from the words of the questions."""
    work = {"sum": int.__add__, "difference": int.__sub__, "product": int.__mul__, "remainder": int.__mod__}
    checked = 0
    for question in BANK.questions:
        if question.family in work and question.form == "open":
            one, other = (int(word) for word in words(question.asked) if word.isdigit())
            assert question.fact == f"it is {work[question.family](one, other)}", question.asked
            checked += 1
    assert checked > 300


def test_a_question_is_found_by_what_is_shown() -> None:
    assert all(BANK.find(question.asked, question.fact) is question for question in BANK.questions)
