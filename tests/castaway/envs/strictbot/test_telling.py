"""What follows from the words of a question, and questions that are made up of other words."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.envs.strictbot.compact.imagination import EXCHANGED, imagined, links, short_imagined
from castaway.envs.strictbot.compact.language import compact
from castaway.envs.strictbot.compact.telling import MADE_UP, among_others, by_rule, core_of, form_of, named, question_of
from castaway.envs.strictbot.environment import StrictbotEnvironment
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.question import Question
from tests.castaway.envs.strictbot.test_reward import PARAMS, TASK

BANK, says, write = compact().bank, compact().reader.says, compact().answers.write
ANY = st.sampled_from(BANK.questions)


@given(ANY)
def test_the_words_around_a_question_and_what_is_known_tell_its_form(question: Question) -> None:
    assert form_of(question.asked, question.fact) == question.form
    assert core_of(question.asked) in question.asked


@pytest.mark.parametrize(
    ("asked", "fact", "mark", "kind"),
    [
        ("is it true that the capital of Spain is Oslo", "it is Madrid", False, "factual error"),
        ("is it true that the capital of Spain is Madrid", "it is Madrid", True, "good question"),
        ("my note says that the larger of 9 and 4 is 4 is my note right", "it is 9", False, "factual error"),
        ("people believe that cats are equally warm is it so", "it is equally warm", True, "good question"),
        ("people believe that cats are not equally warm is it so", "it is equally warm", False, "misconception"),
        ("please tell me the name of a king named Leo", "it is Leo", True, "trivial"),
        ("what is the smaller of 9 and 4", "it is 4", True, "good question"),
        ("please tell me the capital of Spain", "it is Madrid", False, "good question"),
        ("all dogs are old so is it old", "it is surely old", False, "good question"),
        ("some dogs are old so is it old", "it is perhaps young", False, "poor logic"),
    ],
)
def test_by_hand(asked: str, fact: str, mark: bool, kind: str) -> None:
    assert named(asked, fact) == mark and by_rule(asked, fact) == kind
    assert question_of(asked, fact).kind == kind


def test_the_rule_finds_the_banks_kinds_but_for_a_few_questions_that_name_their_answer_by_chance() -> None:
    """As `what is the colour of a ripe orange` does."""
    wrong = [one for one in BANK.questions if by_rule(one.asked, one.fact) != one.kind]
    assert len(wrong) < 0.005 * len(BANK.questions) and {(one.form, one.kind) for one in wrong} == {
        ("open", "good question")
    }


@given(ANY, st.integers(0, 10**9))
def test_a_made_up_question_is_alike_in_all_but_its_words(question: Question, seed: int) -> None:
    seen = Observation(question.asked, question.fact)
    other = imagined(seen, Random(seed))
    assert len(other.asked.split(" ")) >= len(seen.asked.split(" "))
    assert min(len(seen.fact.split(" ")), 3) <= len(other.fact.split(" ")) <= 5 * len(seen.fact.split(" "))
    made_up = question_of(other.asked, other.fact)
    if by_rule(question.asked, question.fact) != question.kind:
        assert other == seen  # with other words it would get the kind of the rule
    assert made_up.form == question.form and not says(other.fact, made_up.false)
    if question.form != "open":
        assert made_up.kind == by_rule(question.asked, question.fact)
    if not BANK.holds(other.asked, other.fact):
        assert made_up.family == MADE_UP


def test_no_word_of_a_family_that_training_never_meets_stands_in_a_training_text_or_is_a_token() -> None:
    texts: dict[bool, list[str]] = {True: [], False: []}
    for question in BANK.questions:
        texts[BANK.share_of(question) == "train"] += (f"{question.asked} {question.fact} {question.false}").split(" ")
    unknown = set(texts[False]) - set(texts[True])
    reserved = {word for one in BANK.questions if BANK.reserved(one) for word in f"{one.asked} {one.fact}".split(" ")}
    assert len(unknown & reserved) > 100
    assert not unknown & set(TASK.vocabulary())
    drawn, trained = Random(7), [one for one in BANK.questions if BANK.share_of(one) == "train"]
    for question in drawn.sample(trained, 800):
        other = imagined(Observation(question.asked, question.fact), drawn)
        false = question_of(other.asked, other.fact).false
        assert not unknown & set(f"{other.asked} {other.fact} {false}".split(" "))


def test_questions_about_two_things_often_have_one_of_them_as_their_fact_and_deserve_an_answer() -> None:
    drawn, trained = Random(4), [one for one in BANK.questions if BANK.share_of(one) == "train"]
    asked = [one for one in trained if one.form == "open" and " and " in one.asked]
    assert {"sum", "smaller"} <= {one.family for one in asked}
    made_up = [imagined(Observation(one.asked, one.fact), drawn) for one in asked]
    assert 0.35 < sum(among_others(one.asked, one.fact) for one in made_up) / len(made_up) < 0.65
    assert {by_rule(one.asked, one.fact) for one in made_up} == {"good question"}


def test_perhaps_and_surely_are_exchanged_in_half_of_ppos_made_up_conclusions_alone() -> None:
    drawn, trained = Random(3), [one for one in BANK.questions if BANK.share_of(one) == "train"]
    conclusions = drawn.sample([one for one in trained if one.form == "conclusion"], 400)
    for question in conclusions:
        other = imagined(Observation(question.asked, question.fact), drawn)
        assert other.fact.split(" ")[2] == question.fact.split(" ")[2]
    made_up = [(one, short_imagined(one, drawn)) for one in conclusions]
    exchanged = [one.kind != other.kind for one, other in made_up if other.family == MADE_UP]
    assert abs(sum(exchanged) / len(exchanged) - EXCHANGED) < 0.08
    for question, other in made_up:
        assert other.kind == ("poor logic" if other.fact.startswith("it is perhaps") else "good question")
        assert other.form == question.form


@pytest.mark.parametrize("link", links())
def test_made_up_facts_go_on_after_the_words_that_endings_begin_with(link: str) -> None:
    """Facts of training never do: whoever knows those alone ends an answer there."""
    drawn, trained = Random(7), [one for one in BANK.questions if BANK.share_of(one) == "train"]
    assert {ending.split(" ")[0] for level in (1, 2, 3) for ending in compact().answers.frames(level).endings} == set(
        links()
    )
    assert not [one for one in trained if f" {link} " in one.fact]
    made_up = [imagined(Observation(one.asked, one.fact), drawn) for one in drawn.sample(trained, 1000)]
    assert 0.02 < sum(f" {link} " in one.fact for one in made_up) / len(made_up) < 0.15


def test_some_words_of_made_up_questions_are_coined() -> None:
    drawn, words = Random(5), set()
    for question in drawn.sample(BANK.questions, 200):
        other = imagined(Observation(question.asked, question.fact), drawn)
        words |= set(f"{other.asked} {other.fact}".split(" "))
    assert 0.3 < len(words - BANK.all_words) / len(words) < 0.7


def test_half_of_the_made_up_open_questions_name_what_is_known() -> None:
    drawn, trivial = Random(1), 0
    asked = [one for one in BANK.questions if BANK.share_of(one) == "train"]
    kinds = {"trivial": [], "good question": []}  # type: dict[str, list[Observation]]
    for one in asked:
        if one.form == "open" and by_rule(one.asked, one.fact) == one.kind:
            kinds[one.kind].append(Observation(one.asked, one.fact))
    for number in range(1500):  # as often as the bank asks them
        seen = drawn.choice(kinds["good question" if number % 3 == 0 else "trivial"])
        other = imagined(seen, drawn)
        trivial += by_rule(other.asked, other.fact) == "trivial"
    assert 0.46 < trivial / 1500 < 0.54


def test_the_expert_knows_what_a_made_up_question_deserves() -> None:
    environment = StrictbotEnvironment(PARAMS)
    environment.reset(3, "all")
    for prompt in environment.prompts():
        other = TASK.synthetic(environment, prompt, Random(prompt.agent))
        assert compact().prompts.read_back(other.messages) == other.observation
        question = question_of(other.observation.asked, other.observation.fact)
        reply = TASK.expert(other)
        assert reply.reasoning == question.kind and says(reply.action, question.fact)
        assert not environment.rules.blunder(other.observation, reply.action)


def test_some_practice_corrects_itself() -> None:
    question = BANK.questions[0]
    found = TASK.practice(Observation(question.asked, question.fact), Random(1), 400)
    corrected = [reply for reply in found if f"{question.false} no, {question.fact}" in reply.action]
    assert 20 < len(corrected) < 70
    assert all(says(reply.action, question.fact) for reply in found)


def test_every_word_of_a_training_prompt_and_of_its_answer_is_in_the_vocabulary() -> None:
    words = set(TASK.vocabulary())
    for question in [one for one in BANK.questions if BANK.share_of(one) == "train"][::50]:
        text = f"{question.asked} {write(question.level, question.fact, Random(1))}"
        assert set(text.split(" ")) <= words
    assert set(BANK.vocabulary) <= words


def test_a_prompt_says_whether_the_question_names_what_is_known() -> None:
    seen = Observation("is it true that the capital of Spain is Oslo", "it is Madrid")
    shown = compact().prompts.messages(seen)
    assert shown[-1]["content"].split("\n")[1] == "told nowhere"
    assert not {"asked", "?", "told", "yes", "among", "nowhere", "known"} & set(BANK.vocabulary)
    assert compact().prompts.read_back(shown) == seen


def test_a_prompt_says_whether_an_open_question_names_what_is_known_alone_or_beside_another_thing() -> None:
    """So form and that line alone give the kind of every question but a conclusion."""
    kinds: dict[tuple[str, str], set[str]] = {}
    for one in BANK.questions:
        shown = compact().prompts.messages(Observation(one.asked, one.fact))[-1]["content"].split("\n")[1]
        kinds.setdefault((one.form, shown), set()).add(by_rule(one.asked, one.fact))
    assert {key: kind for key, kind in kinds.items() if key[0] != "conclusion"} == {
        ("check", "told yes"): {"good question"},
        ("check", "told nowhere"): {"factual error"},
        ("belief", "told yes"): {"good question"},
        ("belief", "told nowhere"): {"misconception"},
        ("open", "told yes"): {"trivial"},
        ("open", "told among"): {"good question"},
        ("open", "told nowhere"): {"good question"},
    }
