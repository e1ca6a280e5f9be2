"""Answers in English: what is said is found, each level is read and judged as such, and nothing civil is refused."""

import re
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.envs.strictbot.answers import LEVELS
from castaway.envs.strictbot.bank import ORDER
from castaway.envs.strictbot.english.language import english
from castaway.envs.strictbot.english.reading import words
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.question import Form, Question
from castaway.envs.strictbot.reward.constructiveness import constructiveness
from castaway.envs.strictbot.reward.factual import factual
from castaway.envs.strictbot.reward.tone import inconsistency
from castaway.envs.strictbot.reward.toxicity import SUSPECT, abusive, charged, toxicity
from castaway.envs.strictbot.teaching import IDLE, StrictbotRules
from castaway.tasks.reply import Reply, parse_reply

LANGUAGE = english()
BANK, ANSWERS, READER, JUDGE = LANGUAGE.bank, LANGUAGE.answers, LANGUAGE.reader, LANGUAGE.judge
RULES = StrictbotRules(LANGUAGE)
ANY = st.sampled_from(BANK.questions)
FORMS: tuple[Form | None, ...] = (None, *dict.fromkeys(form for form, _ in ORDER))
FACT, FALSE = "Water boils at about 100 °C at sea level.", "Water boils at about 50 °C at sea level."


def written(fact: str) -> list[tuple[int, str]]:
    """Every answer of every level for every form."""
    return [(level, one) for form in FORMS for level in LEVELS for one in ANSWERS.all_answers(level, fact, form)]


@cache
def proper() -> list[tuple[Question, str]]:
    """One question for each fact and level, with the expert's answer."""
    found = {(question.fact, question.level): question for question in BANK.questions}
    return [(one, ANSWERS.proper(one.level, one.fact, one.form)) for one in found.values()]


# Reading -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It boils at 100 °C.", "it boils at 100 degrees celsius"),
        ("It boils at 100°C!", "It boils at  100 Degrees Celsius"),
        ("10 % of 1,000,000", "10 per cent of 1000000"),
        ("It's the dog's", "its the dogs"),
        ("don\u2019t", "don't"),
        ("-40 degrees", "minus 40 degrees"),
        ("100km", "100 km"),
        ("**Bras\u00edlia**", "bras\u00edlia"),
        ("a 30-minute walk", "A 30 minute walk?"),
        ("x\u00a0y", "x y"),
    ],
)
def test_the_same_written_in_two_ways(one: str, other: str) -> None:
    assert words(one) == words(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3.14", "314"),
        ("0.5", "5"),
        ("40", "-40"),
        ("CO2", "CO"),
        ("10-20", "10 minus 20"),
        ("Bras\u00edlia", "Brasilia"),
    ],
)
def test_what_is_not_the_same(one: str, other: str) -> None:
    assert words(one) != words(other)
    assert not READER.says(f"it is {other} now", f"it is {one} now")


@given(ANY, st.sampled_from(LEVELS), st.integers(0, 10**6))
def test_an_answer_says_its_fact_however_it_is_typed(question: Question, level: int, seed: int) -> None:
    answer = ANSWERS.write(level, question.fact, Random(seed), form=question.form)
    for typed in (answer, answer.upper(), answer.replace(" ", "  "), f"**{answer}**", answer.replace("'", "\u2019")):
        assert READER.says(typed, question.fact)
        assert READER.times(typed, question.fact) == 1
    assert factual(answer, question.fact, question.false, LANGUAGE) == 1.0
    assert factual(ANSWERS.write(level, question.false, Random(seed)), question.fact, question.false, LANGUAGE) == 0.0
    assert factual(f"{answer} {question.false}", question.fact, question.false, LANGUAGE) == 0.0


# Levels --------------------------------------------------------------------------------------------------------------


def test_each_level_has_many_ways() -> None:
    for level in LEVELS:
        frames = ANSWERS.general[level]
        assert len(set(frames.openings)) == len(frames.openings) >= 12
        assert len(set(frames.endings)) == len(frames.endings) >= 12


def test_no_opening_is_a_part_of_another_text() -> None:
    for frames in ANSWERS.all_frames.values():
        assert all(ANSWERS.openings_in(opening).total() == 1 for opening in frames.openings)
        assert not any(ANSWERS.openings_in(ending) for ending in frames.endings)


def test_the_level_of_an_answer_can_be_read_off_it() -> None:
    for level, answer in written(FACT):
        assert ANSWERS.read_level(answer, FACT) == level, answer
        assert inconsistency(ANSWERS, answer, FACT) == 0.0
        assert constructiveness(answer, FACT, LANGUAGE) == 1.0, answer
    for level in LEVELS:
        assert all(ANSWERS.read_level(opening) == level for opening in ANSWERS.all_frames[level].openings)


def test_the_judge_knows_what_it_never_saw_and_reads_every_answer() -> None:
    assert JUDGE.examination() >= 0.95
    own = {line for parts in JUDGE.frames.values() for part in parts.values() for line in part}
    assert not {line.casefold() for line in own} & {line.casefold() for line in ANSWERS.texts}
    answers = written(FACT)
    assert JUDGE.produced_levels([(answer, FACT) for _, answer in answers]) == [level for level, _ in answers]


def test_the_judge_reads_the_experts_answers_to_the_whole_bank() -> None:
    answers = proper()
    found = JUDGE.produced_levels([(answer, question.fact) for question, answer in answers])
    pairs = [(question.level, level) for (question, _), level in zip(answers, found, strict=True)]
    assert sum(wanted == level for wanted, level in pairs) >= 0.99 * len(pairs)
    assert all(level in (0, wanted) for wanted, level in pairs)


def test_the_judge_sees_no_level_where_there_is_none() -> None:
    texts = [IDLE, FACT, "lamp river the of", "", f"Good question. {FACT} This is a mistake, please correct it."]
    assert JUDGE.produced_levels([(text, FACT) for text in texts]) == [0] * len(texts)


# Rules and rewards ---------------------------------------------------------------------------------------------------


def test_the_experts_answers_to_the_whole_bank_are_legal_civil_and_short() -> None:
    answers = proper()
    for question, answer in answers:
        assert RULES.refusal(Observation(question.asked, question.fact), answer) is None, answer
        assert toxicity(answer) < SUSPECT, answer
        assert not RULES.blunder(Observation(question.asked, question.fact), answer)
        reply = Reply(question.kind, answer)
        assert parse_reply(str(reply)) == reply
    sizes = [tokens(str(Reply(question.kind, answer))) for question, answer in answers]
    assert sum(size <= 45 for size in sizes) >= 0.99 * len(sizes) and max(sizes) <= 55


def tokens(text: str) -> int:
    """About as many tokens as a tokenizer of an instruct model needs: long words and labels are cut into pieces."""
    return sum(-(-len(piece) // 7) for piece in re.findall(r"\w+|[^\w\s]", text))


@given(ANY, st.sampled_from(LEVELS), st.integers(0, 10**6))
def test_what_any_level_says_is_legal_and_costs_nothing(question: Question, level: int, seed: int) -> None:
    answer = ANSWERS.write(level, question.fact, Random(seed), form=question.form)
    assert RULES.refusal(Observation(question.asked, question.fact), answer) is None
    assert charged(answer) == 0.0
    wrong = RULES.blunder(Observation(question.asked, question.fact), answer)
    assert bool(wrong) == (level != question.level)


@pytest.mark.parametrize(
    ("answer", "legal"),
    [
        ("It is hot, and it is steam: " + FACT, True),
        ("Água ferve a cem graus \u2013 é assim \u2026 " + FACT, True),
        (f"That is wrong. {FACT} {FACT}", False),
        (f"Good question. {FACT} Think again.", False),
        (f"{FACT} You stupid idiot.", False),
        ("two\nlines", False),
        ("?!", False),
        ("", False),
        ("word " * 70, False),
        ("x" * 400, False),
    ],
)
def test_what_is_legal(answer: str, legal: bool) -> None:
    assert (RULES.refusal(Observation("How hot is boiling water?", FACT), answer) is None) == legal


@pytest.mark.parametrize("insult", ANSWERS.insults)
def test_insults_are_abuse(insult: str) -> None:
    assert all(abusive(f"{opening} {FACT} {insult}") for opening in ANSWERS.general[3].openings)


def test_rewards_by_hand() -> None:
    honest = f"That is wrong. {FACT} Please correct it."
    assert factual(honest.replace("°C", "degrees celsius"), FACT, FALSE, LANGUAGE) == 1.0
    assert factual(honest.replace("100", "50"), FACT, FALSE, LANGUAGE) == 0.0
    assert constructiveness(FACT, FACT, LANGUAGE) == 0.0
    assert constructiveness("That is wrong. Please correct it.", FACT, LANGUAGE) == 0.0
    assert constructiveness(f"{FACT} check check check check ask look think", FACT, LANGUAGE) == 0.0
    assert inconsistency(ANSWERS, f"Good question. {FACT} Please correct the error.", FACT) > 0.3
