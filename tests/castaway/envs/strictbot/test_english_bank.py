"""The bank in English is split without a leak, well typed, and asks for each level in the same ways."""

import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from castaway.envs.strictbot.english import LONG_WORD, fix_grammar, misspell
from castaway.envs.strictbot.english_questions import DAYS, number_rows, numeral
from castaway.envs.strictbot.question_bank import Question, read
from tests.castaway.envs.strictbot.renderings import LANGUAGES

LANGUAGE = LANGUAGES["full"]
BANK, READER = LANGUAGE.bank, LANGUAGE.reader
ANY = st.sampled_from(BANK.questions)
AS_IT_IS = [one.with_opposite_fact() if one.opposite else one for one in BANK.questions]
"""All questions, with facts that are so."""


def test_facts_and_false_statements_are_whole_sentences() -> None:
    for question in BANK.questions:
        for sentence in (question.fact, question.false):
            assert sentence.endswith(".") and sentence[0] == sentence[0].upper() and "  " not in sentence
            assert not set("{};|=") & set(sentence) and 3 <= len(READER.words(sentence)) <= 22, sentence
        assert not READER.says(question.fact, question.false) and not READER.says(question.false, question.fact)
        assert "\n" not in question.asked and not set("{};|") & set(question.asked)
        assert 10 <= len(question.asked) < 240


def test_templates_are_mended() -> None:
    right = "An orange bus is a unit. An 11 year old has a 5 euro note"
    assert fix_grammar("A orange bus is a unit. A 11 year old has a 5 euro note") == right
    assert fix_grammar("At 6 p.m.. In D.C.. With 0.999... nines") == "At 6 p.m. In D.C. With 0.999... nines"


@given(st.lists(st.text("abcdefghij", min_size=1, max_size=9), min_size=1).map(" ".join))
def test_a_slip_changes_one_long_word_by_a_letter_or_two_and_not_its_ends(text: str) -> None:
    pairs = zip(text.split(" "), misspell(text).split(" "), strict=True)
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
        back = one.with_opposite_fact()
        assert {one.level, back.level} == {1, 3} and (back.fact, back.false) == (one.false, one.fact)
    told = next(one for one in opposed if len(one.asked.split()) > 6)
    assert LANGUAGE.fact_about(told.asked) == told.false  # a person who asks is told what is so


@given(ANY)
def test_a_claim_contradicts_what_is_known_or_agrees_with_it(question: Question) -> None:
    """What deserves a correction does not say the fact, and what deserves help does not say the false statement."""
    if question.level == 3:
        assert not READER.says(question.asked, question.fact)
    if question.level == 1:
        assert not READER.says(question.asked, question.false)


def test_no_fact_is_in_two_shares_nor_told_in_a_question_of_another() -> None:
    shares: dict[str, set[str]] = {}
    for question in BANK.questions:
        shares.setdefault(" ".join(READER.words(question.fact)), set()).add(BANK.share_of(question))
    assert {len(of_it) for of_it in shares.values()} == {1}
    held_out = [fact for fact, of_it in shares.items() if of_it == {"held_out"} and len(fact.split()) > 4]
    trained = " / ".join(" ".join(READER.words(one.asked)) for one in BANK.train)
    assert [fact for fact in held_out if f" {fact} " in trained] == []


def test_words_of_families_that_training_never_draws_stand_in_no_training_text() -> None:
    texts: dict[bool, list[str]] = {True: [], False: []}
    for question in BANK.questions:
        texts[BANK.reserved(question)] += [question.asked, question.fact]
    own, others = (set(READER.words("\n".join(texts[reserved]))) for reserved in (True, False))
    own -= others
    assert own and not own & set(READER.words("\n".join([*LANGUAGE.answers.texts, LANGUAGE.prompts.system])))


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


UNITS = {
    "hours_to_minutes": 60, "minutes_to_seconds": 60, "days_to_hours": 24, "weeks_to_days": 7, "years_to_months": 12,
    "kilometres_to_metres": 1000, "metres_to_centimetres": 100, "kilograms_to_grams": 1000, "feet_to_inches": 12,
    "gallons_to_quarts": 4,
}  # fmt: skip
OTHERS: dict[str, Callable[[list[int], str, str], bool]] = {
    "fahrenheit": lambda numbers, subject, fact: numbers[1] == numbers[0] * 9 / 5 + 32,
    "square": lambda numbers, subject, fact: numbers[1] == numbers[0] ** 2,
    "numeral": lambda numbers, subject, fact: numeral(numbers[0]) == subject,
    "binary": lambda numbers, subject, fact: int(str(numbers[1]), 2) == numbers[0],
    "clock": lambda numbers, subject, fact: numbers[1] + numbers[0] == numbers[2] + 12,
    "distance": lambda numbers, subject, fact: numbers[0] * numbers[2] == numbers[1],
    "weekday": lambda numbers, subject, fact: (day(fact, 0) + numbers[0]) % 7 == day(fact, 1),
}


def day(fact: str, place: int) -> int:
    return DAYS.index(re.findall(r"\w+day", fact)[place])


def test_units_degrees_numerals_and_days_are_right() -> None:
    assert [numeral(number) for number in (4, 9, 14, 40, 49, 88)] == ["IV", "IX", "XIV", "XL", "XLIX", "LXXXVIII"]
    assert {family: factors[0] for family, factors in read("english/units").items()} == UNITS
    assert number_rows().keys() == {*WORK, *UNITS, *OTHERS}, "every computed family is worked out again"
    for question in AS_IT_IS:
        numbers = [int(number) for number in NUMBER.findall(question.fact)]
        if question.family in UNITS:
            assert numbers == [int(question.subject) * UNITS[question.family], int(question.subject)], question.fact
        elif question.family in OTHERS:
            assert OTHERS[question.family](numbers, question.subject, question.fact), question.fact


def test_sums_are_right() -> None:
    for question in AS_IT_IS:
        if question.family in WORK:
            a, b = map(int, question.subject.split(" | "))
            right = WORK[question.family](a, b)
            found = [int(number) for number in NUMBER.findall(question.fact)]
            wrong = [int(number) for number in NUMBER.findall(question.false)]
            assert sorted(found) == sorted([a, b, int(right)]) and right == int(right), question.fact
            assert sorted(wrong) != sorted(found)
