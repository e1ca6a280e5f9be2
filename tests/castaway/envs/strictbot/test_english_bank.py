"""The bank in English is wide, split without a leak, and asks for each level in the same ways."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.envs.strictbot.bank import ORDER, PAIR_IDS, VALIDATION_IDS
from castaway.envs.strictbot.english.language import SYSTEM, english
from castaway.envs.strictbot.english.numbers import DAYS, UNITS, numeral
from castaway.envs.strictbot.english.phrasing import LONG_WORD, careless, mended, misspelled
from castaway.envs.strictbot.english.rows import read
from castaway.envs.strictbot.question import LEVELS as LEVEL_OF
from castaway.envs.strictbot.question import Question
from castaway.tasks.environment import HELD_OUT_START

LANGUAGE = english()
BANK, READER = LANGUAGE.bank, LANGUAGE.reader
ANY = st.sampled_from(BANK.questions)
AS_IT_IS = [one.opposed() if one.opposite else one for one in BANK.questions]
"""All questions, with facts that are so."""


def test_it_is_wide() -> None:
    assert len({question.family for question in BANK.questions}) >= 140
    assert len({(question.family, question.subject) for question in BANK.questions}) >= 3000
    assert len({question.asked for question in BANK.questions}) == len(BANK.questions) >= 20_000


def test_each_family_asks_for_two_levels_at_least_or_answers_itself() -> None:
    for family in {question.family for question in BANK.questions}:
        kinds = {question.kind for question in BANK.questions if question.family == family}
        assert "good question" in kinds or kinds == {"trivial"} or family == "natural_good", family


def test_facts_and_false_statements_are_whole_sentences() -> None:
    for question in BANK.questions:
        for sentence in (question.fact, question.false):
            assert sentence.endswith(".") and sentence[0] == sentence[0].upper() and "  " not in sentence
            assert not set("{};|=") & set(sentence) and 3 <= len(READER.words(sentence)) <= 22, sentence
        assert not READER.says(question.fact, question.false) and not READER.says(question.false, question.fact)
        assert "\n" not in question.asked and not set("{};|") & set(question.asked)
        assert 10 <= len(question.asked) < 240


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("A orange bus is a umbrella", "An orange bus is an umbrella"),
        (
            "It is a 8 hour trip. A 11 year old has a 5 euro note",
            "It is an 8 hour trip. An 11 year old has a 5 euro note",
        ),
        ("Vitamin A is a unit of a euro", "Vitamin A is a unit of a euro"),
        ("At 6 p.m.. In D.C.. With 0.999... nines", "At 6 p.m. In D.C. With 0.999... nines"),
    ],
)
def test_templates_are_mended(text: str, right: str) -> None:
    assert mended(text) == right


def test_articles_suit_the_words_after_them() -> None:
    for question in BANK.questions:
        for text in (question.asked.lower(), question.fact.lower(), question.false.lower()):
            wrong = re.search(r"\ban (?![aeiou8]|hour|11|18)|(?<!vitamin )\ba [aeio8]|[a-z]\.\.(?!\.)", text)
            assert wrong is None, text


def test_most_questions_are_typed_with_care_and_some_are_not() -> None:
    asked = [question.asked for question in BANK.questions]
    careful = [text for text in asked if text != text.lower()]
    assert 0.6 < len(careful) / len(asked) < 0.72
    assert all(text[0] == text[0].upper() for text in careful)


def test_careless_typing_by_hand() -> None:
    assert careless("Are you sure, that's so?") == "are you sure tahts so"
    assert careless("Can you help me please?") == "can you help me please"
    assert misspelled("a b cat 1234") == "a b cat 1234"
    assert misspelled("water") in {"wtaer", "watre", "waetr", "wter", "waer", "watr", "waater", "watter", "wateer"}


@given(st.lists(st.text("abcdefghij", min_size=1, max_size=9), min_size=1).map(" ".join))
def test_a_slip_changes_one_long_word_by_a_letter_or_two_and_not_its_ends(text: str) -> None:
    pairs = zip(text.split(" "), misspelled(text).split(" "), strict=True)
    changed = [(one, other) for one, other in pairs if one != other]
    assert len(changed) <= 1
    for one, other in changed:
        assert len(one) >= LONG_WORD and abs(len(one) - len(other)) <= 1
        assert one[0] == other[0] and one[-1] == other[-1] and set(one) >= set(other)


def test_in_half_of_the_claims_that_training_uses_and_in_no_others_the_opposite_is_taken_as_the_fact() -> None:
    compared = [one for one in BANK.questions if one.form in ("check", "belief")]
    opposed = [one for one in BANK.questions if one.opposite]
    assert {BANK.share_of(one) for one in opposed} == {"train"} and set(opposed) <= set(compared)
    trained = [one for one in compared if BANK.share_of(one) == "train"]
    for kind in ("factual error", "misconception", "good question"):
        share = [one.opposite for one in trained if one.kind == kind]
        assert 0.45 < sum(share) / len(share) < 0.55
    for one in opposed:
        back = one.opposed()
        assert {one.level, back.level} == {1, 3} and (back.fact, back.false) == (one.false, one.fact)
    told = next(one for one in opposed if len(one.asked.split()) > 6)
    assert LANGUAGE.fact_about(told.asked) == told.false  # a person who asks is told what is so


def test_only_claims_and_beliefs_have_an_opposite() -> None:
    for form in ("conclusion", "open"):
        question = next(one for one in BANK.questions if one.form == form)
        with pytest.raises(ValueError, match=f"^{form} .* is neither a claim nor a belief$"):
            question.opposed()


@given(ANY)
def test_a_claim_contradicts_what_is_known_or_agrees_with_it(question: Question) -> None:
    """What deserves a correction does not say the fact, and what deserves help does not say the false statement."""
    if question.level == 3:
        assert not READER.says(question.asked, question.fact)
    if question.level == 1:
        assert not READER.says(question.asked, question.false)


def test_no_fact_is_in_two_shares_nor_told_in_a_question_of_another() -> None:
    shares: dict[str, set[str]] = {}
    subjects: dict[tuple[str, str], set[str]] = {}
    for question in BANK.questions:
        shares.setdefault(" ".join(READER.words(question.fact)), set()).add(BANK.share_of(question))
        subjects.setdefault((question.family, question.subject), set()).add(BANK.share_of(question))
    assert {len(found) for found in (*shares.values(), *subjects.values())} == {1}
    held_out = [fact for fact, found in shares.items() if found == {"held_out"} and len(fact.split()) > 4]
    trained = " / ".join(" ".join(READER.words(one.asked)) for one in BANK.questions if BANK.share_of(one) == "train")
    assert [fact for fact in held_out if f" {fact} " in trained] == []


def test_words_of_families_that_training_never_draws_stand_in_no_training_text() -> None:
    texts = {True: "", False: ""}
    for question in BANK.questions:
        texts[BANK.reserved(question)] += f"\n{question.asked} {question.fact}"
    own = set(READER.words(texts[True])) - set(READER.words(texts[False]))
    shown = [*LANGUAGE.answers.texts, SYSTEM]
    assert own and not own & set(READER.words("\n".join(shown)))


@given(st.integers(0, 2 * HELD_OUT_START - 1), st.integers(0, 10**9))
def test_the_range_of_an_id_decides_the_share_in_the_same_order_as_ever(task_id: int, place: int) -> None:
    question = LANGUAGE.question_at(task_id, place)
    held_out = task_id >= HELD_OUT_START or task_id in PAIR_IDS
    expected = "held_out" if held_out else "validation" if task_id in VALIDATION_IDS else "train"
    assert BANK.share_of(question) == expected
    assert (question.form, question.kind) == ORDER[place % len(ORDER)]
    assert question.level == LEVEL_OF[question.kind]


def test_five_hundred_held_out_ids_ask_about_as_many_subjects_often_of_new_families() -> None:
    ids = range(HELD_OUT_START, HELD_OUT_START + 504)
    found = [BANK.question_for(number, number) for number in ids]
    assert len({question.asked for question in found}) == len(found)
    assert len({(question.kind, question.family, question.subject) for question in found}) > 0.85 * len(found)
    assert 0.25 < sum(map(BANK.reserved, found)) / len(found) < 0.75


def test_the_form_and_the_words_around_a_question_do_not_tell_its_level() -> None:
    """Each frame is used for good questions and others."""
    for form, frames in read("frames").items():
        for frame in frames if form in ("check", "belief", "open", "conclusion") else []:
            start, end = frame.partition("{")[0], frame.rpartition("}")[2]
            kinds = {
                question.kind == "good question"
                for question in BANK.questions
                if question.form == form and question.asked.startswith(start) and question.asked.endswith(end)
            }
            assert kinds == {True, False}, frame


def test_neither_a_fact_nor_a_conclusion_alone_tells_whether_it_follows() -> None:
    kinds: dict[str, set[str]] = {}
    for question in BANK.questions:
        if question.form == "conclusion":
            kinds.setdefault(question.fact, set()).add(question.kind)
    assert sum(len(found) == 2 for found in kinds.values()) > 0.7 * len(kinds)


# Computed facts, worked out again from the words ---------------------------------------------------------------------

NUMBER = re.compile(r"\d+")
WORK = {
    "addition": lambda a, b: a + b,
    "subtraction": lambda a, b: a - b,
    "multiplication": lambda a, b: a * b,
    "division": lambda a, b: a / b,
    "percentage": lambda a, b: b * a / 100,
    "discount": lambda a, b: a * (100 - b) / 100,
    "average": lambda a, b: (a + b) / 2,
    "area": lambda a, b: a * b,
    "perimeter": lambda a, b: 2 * (a + b),
    "change": lambda a, b: a - b,
    "birthday": lambda a, b: b - a,
}


@pytest.mark.parametrize("family", WORK)
def test_sums_are_right(family: str) -> None:
    for question in AS_IT_IS:
        if question.family == family:
            a, b = map(int, question.subject.split(" | "))
            right = WORK[family](a, b)
            found = [int(number) for number in NUMBER.findall(question.fact)]
            wrong = [int(number) for number in NUMBER.findall(question.false)]
            assert sorted(found) == sorted([a, b, int(right)]) and right == int(right), question.fact
            assert sorted(wrong) != sorted(found)


def test_units_degrees_numerals_and_days_are_right() -> None:
    for question in AS_IT_IS:
        numbers = [int(number) for number in NUMBER.findall(question.fact)]
        if question.family in UNITS:
            assert numbers == [int(question.subject) * UNITS[question.family][0], int(question.subject)]
        elif question.family == "fahrenheit":
            assert numbers[1] == numbers[0] * 9 / 5 + 32
        elif question.family == "square":
            assert numbers[1] == numbers[0] ** 2
        elif question.family == "numeral":
            assert numeral(numbers[0]) == question.subject
        elif question.family == "binary":
            assert int(str(numbers[1]), 2) == numbers[0]
        elif question.family == "clock":
            later, start, end = numbers
            assert start + later == end + 12
        elif question.family == "distance":
            assert numbers[0] * numbers[2] == numbers[1]
        elif question.family == "weekday":
            days = [DAYS.index(word) for word in re.findall(r"\w+day", question.fact)]
            assert (days[0] + numbers[0]) % 7 == days[1]


def test_numerals_by_hand() -> None:
    assert [numeral(number) for number in (4, 9, 14, 40, 49, 88)] == ["IV", "IX", "XIV", "XL", "XLIX", "LXXXVIII"]
