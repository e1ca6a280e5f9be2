"""The task in its full rendering: prompts that people can read, exercises, and the chat."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castaway.config.errors import CastawayError
from castaway.envs.strictbot.environment import StrictbotEnvironment
from castaway.envs.strictbot.exercise_writer import KINDS, ExerciseWriter
from castaway.envs.strictbot.question_bank import NAMES, Observation, Question
from castaway.tasks.reply import Reply, parse_reply
from castaway.tools.view import view_of
from tests.castaway.envs.strictbot.renderings import LANGUAGES, PARAMS, TASKS

LANGUAGE, TASK = LANGUAGES["full"], TASKS["full"]
FULL = TASK.game
ANY = st.sampled_from(LANGUAGE.bank.questions)
LINE = st.text(st.characters(exclude_categories=["Cc", "Zl", "Zp", "Cs"]), min_size=1, max_size=80)


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


def test_nothing_is_made_up() -> None:
    assert not TASK.makes_synthetic and TASKS["compact"].makes_synthetic
    (stage,) = TASK.curriculum(8)
    for task_id in (stage.task_ids[0], stage.task_ids[-1], 350_000_000):
        question = LANGUAGE.question_at(task_id, task_id)
        assert LANGUAGE.bank.find(question.asked, question.fact) is not None
        assert TASK.kind_of(task_id) == question.kind
    assert TASK.vocabulary() == []


# Exercises by a teacher ----------------------------------------------------------------------------------------------

FACT = "The tomb of Grant is in New York."
EXERCISE = {
    "asked": "A friend says that the tomb of Grant is in Boston. Is it?",
    "fact": FACT,
    "false": "The tomb of Grant is in Boston.",
    "help": f"I looked it up for you. {FACT}",
    "challenge": f"Compare two maps. {FACT}",
    "correction": f"The map says otherwise. {FACT}",
}


def test_a_good_exercise_is_taken_and_a_bad_one_is_not() -> None:
    commission = ExerciseWriter(StrictbotEnvironment(FULL))
    found = commission.read(0, json.dumps(EXERCISE))
    assert found.prompt.messages[-1]["content"].startswith("Question: A friend")
    assert found.reply == Reply("factual error", EXERCISE["correction"]) and len(found.pairs) == 3
    for changed, reason in (
        ({"fact": "New York"}, "fact is no sentence"),
        ({"asked": "The tomb of Grant is in New York?"}, "asked says the fact"),
        ({"help": f"No, that is wrong. {EXERCISE['fact']}"}, f"begins like {NAMES[3]}"),
    ):
        with pytest.raises(ValueError, match=reason):
            commission.read(0, json.dumps({**EXERCISE, **changed}))
    example = json.loads(commission.request(0)[1]["content"].split("\n")[1])["example"]
    assert LANGUAGE.bank.share_of(LANGUAGE.bank.find(example["asked"], example["fact"])) == "train"


# The chat ------------------------------------------------------------------------------------------------------------


def test_a_chat_asks_as_the_run_was_trained() -> None:
    full, compact = view_of("strictbot", FULL), view_of("strictbot", PARAMS)
    typed = "My boss said water boils at 50 °C. Is he right? | Water boils at 100 °C at sea level."
    *_, shown = full.chat_messages(f"  {typed} ")
    assert shown["content"] == "Question: " + typed.replace(" | ", "\nKnown: ")
    said = str(Reply("x", "That is wrong. Water boils at 100 °C at sea level. Please correct it."))
    assert full.chat_remark([shown], said) == f"level 3: {NAMES[3]}"
    *_, shown = compact.chat_messages("Is it true that it is so? | it is so.")
    assert shown["content"] == "asked is it true that it is so ?\ntold yes\nknown it is so"
    said = str(Reply("x", "no, that is wrong, it is so so please correct it"))
    assert compact.chat_remark([shown], said) == f"level 3: {NAMES[3]}"
    with pytest.raises(CastawayError, match=r"behind a bar: Who am I\? \| "):
        full.chat_messages("Who am I?")


@given(ANY, st.sampled_from(LANGUAGES["compact"].bank.questions))
def test_a_chat_knows_what_the_bank_knows(question: Question, short: Question) -> None:
    *_, shown = view_of("strictbot", FULL).chat_messages(question.asked)
    fact = question.false if question.opposite else question.fact
    assert shown["content"] == f"Question: {question.asked}\nKnown: {fact}"
    *_, shown = view_of("strictbot", PARAMS).chat_messages(f"{short.asked}?")
    assert shown["content"].endswith(f"known {short.fact}")
