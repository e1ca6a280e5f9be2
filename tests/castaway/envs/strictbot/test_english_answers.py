"""Answers in English: what is said is found, each level is read and judged as such, and nothing civil is refused."""

import re
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.envs.strictbot.english import words
from castaway.envs.strictbot.environment import IDLE, StrictbotRules
from castaway.envs.strictbot.question_bank import LEVELS, ORDER, Form, Observation, Question
from castaway.envs.strictbot.rewards import SUSPECT, constructiveness, factual, inconsistency, toxicity
from castaway.tasks.reply import Reply, parse_reply
from tests.castaway.envs.strictbot.renderings import LANGUAGES

LANGUAGE = LANGUAGES["full"]
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
        ("10 % of 1,000,000", "10 per cent of 1000000"),
        ("It's the dog's", "its the dogs"),
        ("don\u2019t", "don't"),
        ("-40 degrees", "minus 40 degrees"),
        ("**Bras\u00edlia**", "bras\u00edlia"),
        ("a 30-minute walk", "A 30 minute walk?"),
        ("x\u00a0y", "x y"),
    ],
)
def test_the_same_written_in_two_ways(one: str, other: str) -> None:
    assert words(one) == words(other)


@pytest.mark.parametrize(("one", "other"), [("3.14", "314"), ("40", "-40"), ("CO2", "CO"), ("10-20", "10 minus 20")])
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
    texts = [IDLE, FACT, "lamp river the of", "", f"Good question. {FACT} This is a mistake, please correct it."]
    assert JUDGE.produced_levels([(text, FACT) for text in texts]) == [0] * len(texts)


def test_the_judge_reads_the_experts_answers_to_the_whole_bank() -> None:
    answers = proper()[::5]
    found = JUDGE.produced_levels([(answer, question.fact) for question, answer in answers])
    pairs = [(question.level, level) for (question, _), level in zip(answers, found, strict=True)]
    assert sum(wanted == level for wanted, level in pairs) >= 0.99 * len(pairs)
    assert all(level in (0, wanted) for wanted, level in pairs)


# Rules and rewards ---------------------------------------------------------------------------------------------------


def test_the_experts_answers_are_legal_civil_and_short() -> None:
    answers = proper()[::9]
    for question, answer in answers:
        assert RULES.refusal(question.observation, answer) is None, answer
        assert toxicity(answer) < SUSPECT, answer
        assert not RULES.blunder(question.observation, answer)
        reply = Reply(question.kind, answer)
        assert parse_reply(str(reply)) == reply
    sizes = [tokens(str(Reply(question.kind, answer))) for question, answer in answers]
    assert sum(size <= 45 for size in sizes) >= 0.99 * len(sizes) and max(sizes) <= 55


def tokens(text: str) -> int:
    """About as many tokens as a tokenizer of an instruct model needs: long words and labels are cut into pieces."""
    return sum(-(-len(piece) // 7) for piece in re.findall(r"\w+|[^\w\s]", text))


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
        ("x" * 400, False),
    ],
)
def test_what_is_legal(answer: str, legal: bool) -> None:
    assert (RULES.refusal(Observation("How hot is boiling water?", FACT), answer) is None) == legal
