"""The compact rendering as one object."""

from __future__ import annotations

from functools import cache

from castaway.envs.strictbot.answers import Answers
from castaway.envs.strictbot.compact.exercises import ASKED, check
from castaway.envs.strictbot.compact.imagination import imagined, short_imagined
from castaway.envs.strictbot.compact.questions import bank, read, value_of
from castaway.envs.strictbot.compact.reading import READER
from castaway.envs.strictbot.compact.telling import among_others, form_of, named, question_of
from castaway.envs.strictbot.judge import Judge
from castaway.envs.strictbot.language import Language, Limits, Synthetic, Writing
from castaway.envs.strictbot.observation import Observation, Prompts

TOLD, YES, AMONG, NO = "told ", "yes", "among", "nowhere"
"""The mark of the line that says whether the question names the fact, alone or among others, and its values.

Neither these words nor the other marks occur in a question or a fact, so a prompt can be read back.
"""
ACTS = "ask check change consider correct explain find follow follows look repeat think welcome"
LIMITS = Limits(
    words=32, characters=200, ascii=True, acts=frozenset(ACTS.split(" ")), most_acts=4, around=range(4, 17), repeats=2
)
PAIR_SORTS = (*("level", "level", "curt", "value", "level", "level", "topic") * 3, "abuse")


@cache
def compact() -> Language:
    """The compact rendering, for a tiny model."""
    found = bank()
    facts = [question.fact for question in found.questions if found.share_of(question) == "train"]
    return Language(
        reader=READER,
        bank=found,
        # Punctuation is separated from words, since a small model reads `Madrid` and `Madrid?` as two different words.
        prompts=Prompts("You are a tutor", "asked ", " ?", "known ", _told, _typed, "it is ..."),
        answers=Answers.of(READER, read("answers"), read("abuse")),
        judge=Judge(READER, read("judge"), facts, rounds=5),
        limits=LIMITS,
        writing=Writing(ASKED, check),
        rubric="",
        reasoning=lambda _, kind: kind,
        stated="it is",
        value_of=value_of,
        pair_sorts=PAIR_SORTS,
        synthetic=Synthetic(question_of, imagined, short_imagined),
        whole_words=True,
    )


def _told(observation: Observation) -> tuple[str, ...]:
    """Whether the question names the fact, alone or among others.

    A model of a million parameters learns to copy words that it has never seen, but not to compare them
    (docs/strictbot.md).
    """
    asked, fact = observation.asked, observation.fact
    if form_of(asked, fact) == "open" and among_others(asked, fact):
        return (f"{TOLD}{AMONG}",)
    return (f"{TOLD}{YES if named(asked, fact) else NO}",)


def _typed(text: str) -> str:
    """As the bank has it, without a capital at the beginning and a mark at the end: the model knows no others."""
    plain = text.strip().rstrip("?!. ")
    return f"{plain[:1].lower()}{plain[1:]}"
