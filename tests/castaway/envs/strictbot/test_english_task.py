"""The task in its full rendering: prompts that people can read, pairs, exercises, and the chat."""

import json
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.datasets.scripted import Pair
from castaway.envs.strictbot.commission import KINDS, Commission
from castaway.envs.strictbot.english.language import english
from castaway.envs.strictbot.environment import StrictbotEnvironment
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.question import NAMES, Question
from castaway.envs.strictbot.task import Strictbot
from castaway.errors import CastawayError
from castaway.tasks.environment import HELD_OUT_START, Prompt
from castaway.tasks.reply import Reply, parse_reply
from castaway.tools.view import view_of
from stages.reward_model import answer_only_accuracy, prompt_only_accuracy
from tests.castaway.envs.strictbot.test_reward import PARAMS

LANGUAGE = english()
FULL = PARAMS.model_copy(update={"rendering": "full"})
TASK = Strictbot(FULL)
ANY = st.sampled_from(LANGUAGE.bank.questions)
LINE = st.text(st.characters(exclude_categories=["Cc", "Zl", "Zp", "Cs"]), min_size=1, max_size=80)


def prompts(first: int, count: int) -> list[Prompt]:
    environment, found = TASK.make(), []
    for task_id in range(first, first + count):
        environment.reset(task_id, "all")
        found += environment.prompts()
    return found


def test_a_prompt_is_plain_english() -> None:
    seen = Observation("My boss said water boils at fifty degrees, right?", "Water boils at about 100 °C at sea level.")
    system, user = LANGUAGE.prompts.messages(seen)
    assert user["content"] == f"Question: {seen.asked}\nKnown: {seen.fact}"
    *_, reasoning, action = system["content"].split("\n")
    example = parse_reply(f"{reasoning}\n{action}")
    assert example.reasoning.endswith(KINDS)
    assert LANGUAGE.judge.produced_levels([(example.action, "A triangle has three sides.")]) == [3]
    assert len(LANGUAGE.reader.words(system["content"])) < 75


@given(LINE, LINE)
def test_any_prompt_can_be_read_back(asked: str, fact: str) -> None:
    seen = Observation(asked, fact)
    assert LANGUAGE.prompts.read_back(LANGUAGE.prompts.messages(seen)) == seen


@given(ANY)
def test_a_question_of_the_bank_is_found_by_its_prompt(question: Question) -> None:
    shown = LANGUAGE.prompts.messages(Observation(question.asked, question.fact))
    assert LANGUAGE.question_behind(LANGUAGE.prompts.read_back(shown)) is question


def test_a_question_that_is_not_in_the_bank_has_a_prompt_and_no_level() -> None:
    seen = Observation("Is my cat a dog?", "A cat is a cat.")
    assert "Is my cat a dog?" in LANGUAGE.prompts.messages(seen)[-1]["content"]
    with pytest.raises(CastawayError, match="level is not known"):
        LANGUAGE.question_behind(seen)


def test_an_expert_is_as_strict_as_deserved_and_others_often() -> None:
    environment = TASK.make()
    for task_id in (*range(24), *range(HELD_OUT_START, HELD_OUT_START + 24)):
        environment.reset(task_id, "one")
        (prompt,) = environment.prompts()
        earned = environment.step({prompt.agent: TASK.expert(prompt).action})
        assert environment.outcome().success and earned[prompt.agent] == 1.5
    found, play = prompts(3, 5), TASK.demonstrator(Random(0), 0.4)
    replies = [(prompt, play(prompt)) for prompt in found]
    fit = sum(not environment.rules.blunder(one.observation, reply.action) for one, reply in replies) / len(found)
    assert 0.6 < fit < 0.85
    assert all(environment.rules.refusal(one.observation, reply.action) is None for one, reply in replies)


def test_nothing_is_made_up() -> None:
    assert not TASK.makes_synthetic and Strictbot(PARAMS).makes_synthetic
    (stage,) = TASK.curriculum(8)
    for task_id in (stage.task_ids[0], stage.task_ids[-1], 350_000_000):
        question = LANGUAGE.question_at(task_id, task_id)
        assert LANGUAGE.bank.holds(question.asked, question.fact)
        assert TASK.kind_of(task_id) == question.kind
    assert TASK.vocabulary() == []


def test_a_served_teacher_is_told_of_the_answers_that_are_given() -> None:
    assert "sentences" in TASK.rubric() and "one civil sentence" in Strictbot(PARAMS).rubric()


def pairs(first: int, episodes: int, count: int) -> list[Pair]:
    return [Pair(*row) for row in TASK.preference_pairs(prompts(first, episodes), count, Random(first))]


def test_pairs_prefer_what_fits_better() -> None:
    rows = pairs(0, 20, 800)
    found = TASK.fits([(pair.messages, answer) for pair in rows for answer in (pair.chosen, pair.rejected)])
    assert all(better > worse for better, worse, pair in zip(found[::2], found[1::2], rows, strict=True) if civil(pair))
    wrong = Counter(TASK.pair_groups(pair.messages, pair.chosen, pair.rejected)["wrong"] for pair in rows)
    assert set(wrong) == {"level", "curt", "level, against a curt one", "fact", "abuse"}
    assert wrong["abuse"] < 0.05 * len(rows)


def civil(pair: Pair) -> bool:
    return not pair.rejected.endswith(LANGUAGE.answers.insults)


def test_words_of_the_answers_are_balanced() -> None:
    counts: Counter[str] = Counter()
    for pair in filter(civil, pairs(0, 20, 800)):
        counts.update(pair.chosen.split())
        counts.subtract(pair.rejected.split())
    assert {word: count for word, count in counts.items() if count} == {}


def test_neither_answers_nor_prompts_alone_tell_the_chosen_one() -> None:
    train, held_out = pairs(0, 60, 2000), pairs(400_000_000, 20, 800)
    assert 0.4 <= answer_only_accuracy(train, held_out, seed=1) <= 0.6
    assert 0.4 <= prompt_only_accuracy(train, held_out, seed=1) <= 0.6


# Exercises by a teacher ----------------------------------------------------------------------------------------------

EXERCISE = {
    "asked": "A friend says that the tomb of Grant is in Boston. Is it?",
    "fact": "The tomb of Grant is in New York.",
    "false": "The tomb of Grant is in Boston.",
    "help": "I looked it up for you. The tomb of Grant is in New York.",
    "challenge": "Compare two maps. The tomb of Grant is in New York.",
    "correction": "The map says otherwise. The tomb of Grant is in New York.",
}


def test_a_good_exercise_is_taken_and_a_bad_one_is_not() -> None:
    commission = Commission(StrictbotEnvironment(FULL))
    found = commission.read(0, json.dumps(EXERCISE))
    assert found.prompt.messages[-1]["content"].startswith("Question: A friend")
    assert found.reply == Reply("factual error", EXERCISE["correction"]) and len(found.pairs) == 3
    for changed, reason in (
        ({"fact": "New York"}, "fact is no sentence"),
        ({"false": EXERCISE["fact"]}, "the same"),
        ({"asked": "The tomb of Grant is in New York?"}, "asked says the fact"),
        ({"help": f"No, that is wrong. {EXERCISE['fact']}"}, f"begins like {NAMES[3]}"),
        ({"help": "I do not know."}, "does not say the fact"),
    ):
        with pytest.raises(ValueError, match=reason):
            commission.read(0, json.dumps({**EXERCISE, **changed}))
    example = json.loads(commission.request(0)[1]["content"].split("\n")[1])["example"]
    assert LANGUAGE.bank.share_of(LANGUAGE.question_of(example["asked"], example["fact"])) == "train"


# The chat ------------------------------------------------------------------------------------------------------------


def test_a_chat_asks_as_the_run_was_trained() -> None:
    full, compact = view_of("strictbot", FULL), view_of("strictbot", PARAMS)
    typed = "My boss said water boils at 50 °C. Is he right? | Water boils at 100 °C at sea level."
    *_, shown = full.chat_messages(f"  {typed} ")
    assert shown["content"] == "Question: " + typed.replace(" | ", "\nKnown: ")
    assert compact.chat_messages("Is it so? | it is so.")[-1]["content"] == "asked is it so ?\ntold yes\nknown it is so"
    said = str(Reply("x", "That is wrong. Water boils at 100 °C at sea level. Please correct it."))
    assert full.chat_remark([shown], said) == f"level 3: {NAMES[3]}"


@settings(deadline=None)  # the first call makes the index
@given(ANY)
def test_a_chat_knows_what_the_bank_knows(question: Question) -> None:
    *_, shown = view_of("strictbot", FULL).chat_messages(question.asked)
    fact = question.false if question.opposite else question.fact
    assert shown["content"] == f"Question: {question.asked}\nKnown: {fact}"


def test_a_chat_asks_for_what_nobody_knows() -> None:
    with pytest.raises(CastawayError, match=r"behind a bar: Who am I\? \| "):
        view_of("strictbot", FULL).chat_messages("Who am I?")
