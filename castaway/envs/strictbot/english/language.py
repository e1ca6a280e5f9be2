"""The full rendering as one object."""

from __future__ import annotations

from functools import cache

from castaway.envs.strictbot.answers import Answers
from castaway.envs.strictbot.english.exercises import ASKED, check
from castaway.envs.strictbot.english.questions import bank
from castaway.envs.strictbot.english.reading import READER
from castaway.envs.strictbot.english.reasoning import reasoning
from castaway.envs.strictbot.english.rows import read
from castaway.envs.strictbot.judge import Judge
from castaway.envs.strictbot.language import Language, Limits, Writing
from castaway.envs.strictbot.observation import Prompts

SYSTEM = (
    "You are a tutor. Correct a false claim firmly, challenge poor reasoning or a question that answers itself, and "
    "help with a good question. Always be civil and say the known fact word for word. Reply in two lines, like this:\n"
    "REASONING: it says four, but it is three: factual error\n"
    "ACTION: That is wrong. A triangle has three sides. Please correct it."
)
RUBRIC = (
    "The player is a tutor who is shown a question and a known fact. An answer is one to three short, civil sentences "
    "that contain the fact, word for word, and is as strict as the question deserves: a firm correction where a claim "
    "or a common belief contradicts the fact, a challenge to the reasoning where a conclusion is surer or less sure "
    "than the fact allows or where the question holds its own answer, help where the question is good or has it "
    "right.\n\n"
    "A blunder is: an answer of another level than the question deserves; an answer that says what is not so."
)
ACTS = (
    "arguing argument ask asked asking assume assumption believe build careful change check clear compare "
    "conclude conclusion consider correct examine example explain find finding fix follows help hope know look "
    "make notice overlook pass pause put question read reason reflect rely remember repair repeat replace see "
    "seen source spread tell test think thinking try use weigh work worked"
)
LIMITS = Limits(
    words=60, characters=360, ascii=False, acts=frozenset(ACTS.split(" ")), most_acts=6, around=range(4, 27), repeats=3
)
PAIR_SORTS = (*("alike", "level", "curt", "value", "alike", "alike", "topic") * 3, "abuse")
"""Most are between questions of one form: only those cannot be told apart by the form of their answers."""


@cache
def english() -> Language:
    """The full rendering, for people and instruct models."""
    found = bank()
    facts = [question.fact for question in found.questions if found.share_of(question) == "train"]
    return Language(
        reader=READER,
        bank=found,
        prompts=Prompts(SYSTEM, "Question: ", "", "Known: ", lambda _: (), str.strip, "The sky is blue."),
        answers=Answers.of(READER, read("answers"), read("abuse")),
        judge=Judge(READER, read("judge"), facts, rounds=1),
        limits=LIMITS,
        writing=Writing(ASKED, check),
        rubric=RUBRIC,
        reasoning=reasoning,
        stated="",
        value_of=str,
        pair_sorts=PAIR_SORTS,
        synthetic=None,
        whole_words=False,
    )
