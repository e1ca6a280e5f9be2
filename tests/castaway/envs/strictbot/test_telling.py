"""What follows from the words of a question, and questions that are made up of other words."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.envs.strictbot.compact_questions import (
    EXCHANGED,
    SYNTHETIC,
    core_of,
    form_of,
    kind_by_rule,
    links,
    names_fact,
    question_of,
    short_synthetic_question,
    synthetic_observation,
)
from castaway.envs.strictbot.question_bank import Question
from tests.castaway.envs.strictbot.renderings import LANGUAGES, TASKS

TASK, COMPACT = TASKS["compact"], LANGUAGES["compact"]
BANK, says, write = COMPACT.bank, COMPACT.reader.says, COMPACT.answers.write
ANY = st.sampled_from(BANK.questions)


@given(ANY)
def test_the_words_around_a_question_and_what_is_known_tell_its_form(question: Question) -> None:
    assert form_of(question.asked, question.fact) == question.form
    assert core_of(question.asked) in question.asked


@pytest.mark.parametrize(
    ("asked", "fact", "mark", "kind"),
    [
        ("is it true that the capital of Spain is Oslo", "it is Madrid", False, "factual error"),
        ("my note says that the larger of 9 and 4 is 4 is my note right", "it is 9", False, "factual error"),
        ("people believe that cats are equally warm is it so", "it is equally warm", True, "good question"),
        ("people believe that cats are not equally warm is it so", "it is equally warm", False, "misconception"),
        ("please tell me the name of a king named Leo", "it is Leo", True, "trivial"),
        ("what is the smaller of 9 and 4", "it is 4", True, "good question"),
        ("all dogs are old so is it old", "it is surely old", False, "good question"),
        ("some dogs are old so is it old", "it is perhaps young", False, "poor logic"),
    ],
)
def test_by_hand(asked: str, fact: str, mark: bool, kind: str) -> None:
    assert names_fact(asked, fact) == mark and kind_by_rule(asked, fact) == kind
    assert question_of(asked, fact).kind == kind


def test_the_rule_finds_the_banks_kinds_but_for_a_few_questions_that_name_their_answer_by_chance() -> None:
    """As `what is the colour of a ripe orange` does."""
    wrong = [one for one in BANK.questions if kind_by_rule(one.asked, one.fact) != one.kind]
    assert len(wrong) < 0.005 * len(BANK.questions) and {(one.form, one.kind) for one in wrong} == {
        ("open", "good question")
    }


@given(ANY, st.integers(0, 10**9))
def test_a_made_up_question_is_alike_in_all_but_its_words(question: Question, seed: int) -> None:
    seen = question.observation
    other = synthetic_observation(seen, Random(seed))
    assert len(other.asked.split(" ")) >= len(seen.asked.split(" "))
    assert min(len(seen.fact.split(" ")), 3) <= len(other.fact.split(" ")) <= 5 * len(seen.fact.split(" "))
    made_up = question_of(other.asked, other.fact)
    if kind_by_rule(question.asked, question.fact) != question.kind:
        assert other == seen  # with other words it would get the kind of the rule
    assert made_up.form == question.form and not says(other.fact, made_up.false)
    if question.form != "open":
        assert made_up.kind == kind_by_rule(question.asked, question.fact)
    if BANK.find(other.asked, other.fact) is None:
        assert made_up.family == SYNTHETIC


def test_no_word_of_a_family_that_training_never_meets_stands_in_a_training_text_or_is_a_token() -> None:
    texts: dict[bool, list[str]] = {True: [], False: []}
    for question in BANK.questions:
        texts[BANK.share_of(question) == "train"] += (f"{question.asked} {question.fact} {question.false}").split(" ")
    unknown = set(texts[False]) - set(texts[True])
    reserved = {word for one in BANK.questions if BANK.reserved(one) for word in f"{one.asked} {one.fact}".split(" ")}
    assert len(unknown & reserved) > 100
    assert not unknown & set(TASK.vocabulary())
    drawn, trained = Random(7), BANK.train
    for question in drawn.sample(trained, 800):
        other = synthetic_observation(question.observation, drawn)
        false = question_of(other.asked, other.fact).false
        assert not unknown & set(f"{other.asked} {other.fact} {false}".split(" "))


def test_perhaps_and_surely_are_exchanged_in_half_of_ppos_made_up_conclusions_alone() -> None:
    drawn, trained = Random(3), BANK.train
    conclusions = drawn.sample([one for one in trained if one.form == "conclusion"], 400)
    for question in conclusions:
        other = synthetic_observation(question.observation, drawn)
        assert other.fact.split(" ")[2] == question.fact.split(" ")[2]
    made_up = [(one, short_synthetic_question(one, drawn)) for one in conclusions]
    exchanged = [one.kind != other.kind for one, other in made_up if other.family == SYNTHETIC]
    assert abs(sum(exchanged) / len(exchanged) - EXCHANGED) < 0.08
    for question, other in made_up:
        assert other.kind == ("poor logic" if other.fact.startswith("it is perhaps") else "good question")
        assert other.form == question.form


@pytest.mark.parametrize("link", links())
def test_made_up_facts_go_on_after_the_words_that_endings_begin_with(link: str) -> None:
    """Facts of training never do: whoever knows those alone ends an answer there."""
    drawn, trained = Random(7), BANK.train
    assert {ending.split(" ")[0] for level in (1, 2, 3) for ending in COMPACT.answers.frames(level).endings} == set(
        links()
    )
    assert not [one for one in trained if f" {link} " in one.fact]
    made_up = [synthetic_observation(one.observation, drawn) for one in drawn.sample(trained, 1000)]
    assert 0.02 < sum(f" {link} " in one.fact for one in made_up) / len(made_up) < 0.15


def test_a_prompt_says_whether_an_open_question_names_what_is_known_alone_or_beside_another_thing() -> None:
    """So form and that line alone give the kind of every question but a conclusion."""
    kinds: dict[tuple[str, str], set[str]] = {}
    for one in BANK.questions:
        shown = COMPACT.prompts.messages(one.observation)[-1]["content"].split("\n")[1]
        kinds.setdefault((one.form, shown), set()).add(kind_by_rule(one.asked, one.fact))
    assert {key: kind for key, kind in kinds.items() if key[0] != "conclusion"} == {
        ("check", "told yes"): {"good question"},
        ("check", "told nowhere"): {"factual error"},
        ("belief", "told yes"): {"good question"},
        ("belief", "told nowhere"): {"misconception"},
        ("open", "told yes"): {"trivial"},
        ("open", "told among"): {"good question"},
        ("open", "told nowhere"): {"good question"},
    }
