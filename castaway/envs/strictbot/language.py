"""The two renderings of STRICTBOT: one object for each holds all that a tutor is asked, shows, writes and reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from random import Random
from typing import Literal

from castaway.config.errors import CastawayError
from castaway.envs.strictbot import compact_questions, english_questions
from castaway.envs.strictbot.answers import Answers, Judge, Reader
from castaway.envs.strictbot.english import READER, reasoning
from castaway.envs.strictbot.question_bank import SYNTHETIC_IDS, Bank, Kind, Observation, Question, read
from castaway.tasks.environment import Message

Rendering = Literal["compact", "full"]


@dataclass(frozen=True, slots=True)
class Prompts:
    """How one rendering shows an observation: a line for the question, perhaps another, and a line for the fact.

    The fact is at the end, because a tiny model learns to look at a position long before it learns to search.
    """

    system: str
    asked: str  # the mark before the question
    end: str  # the mark after the question
    known: str  # the mark before the fact
    between: Callable[[Observation], tuple[str, ...]]  # the lines between question and fact
    typed: Callable[[str], str]  # a question or a fact as a person types it, brought into the form of the bank
    example: str  # a fact, for people who are to type one

    def messages(self, observation: Observation) -> tuple[Message, ...]:
        question, fact = f"{self.asked}{observation.asked}{self.end}", f"{self.known}{observation.fact}"
        shown = "\n".join([question, *self.between(observation), fact])
        return ({"role": "system", "content": self.system}, {"role": "user", "content": shown})

    def read_back(self, shown: Sequence[Message]) -> Observation:
        asked, *_, known = shown[-1]["content"].split("\n")
        return Observation(asked.removeprefix(self.asked).removesuffix(self.end), known.removeprefix(self.known))


@dataclass(frozen=True, slots=True)
class Limits:
    """What the rules accept as an answer, and what counts as constructive."""

    words: int  # most words of an answer
    characters: int  # most characters of an answer
    ascii: bool  # whether an answer consists of ASCII characters; otherwise any printable ones are allowed
    acts: frozenset[str]  # words for what a good tutor asks for or offers
    most_acts: int  # most `acts` in an answer; more make it a list of words
    around: range  # numbers of words around the fact of a constructive answer
    repeats: int  # how often one word may stand around the fact


@dataclass(frozen=True, eq=False)
class Language:
    name: Rendering
    reader: Reader
    bank: Bank
    prompts: Prompts
    answers: Answers
    judge: Judge
    limits: Limits
    rubric: str  # what a served teacher that judges is told about the task
    request: str  # what a served teacher that writes exercises is asked for
    reasoning: Callable[[Question, Kind], str]  # what a tutor thinks who takes the question to be of a kind
    stated: str  # words that state a fact; an answer may hold them once. Empty: the words of the fact itself
    value_of: Callable[[str], str]  # what a fact, or a false statement, says: the part that no other one has
    pair_sorts: Sequence[str]  # the sorts of consecutive groups of preference pairs; see `pairs`

    @property
    def compact(self) -> bool:
        """Whether it is for a tiny model: words are tokens, and the kind of any question follows from its words."""
        return self.name == "compact"

    def question_at(self, task_id: int, place: int) -> Question:
        """The question at position `place` of the bank's order; for `SYNTHETIC_IDS`, a synthetic one made from it."""
        question = self.bank.question_for(task_id, place)
        if self.compact and task_id in SYNTHETIC_IDS:
            return compact_questions.short_synthetic_question(question, Random(place))
        return question

    def question_behind(self, observation: Observation) -> Question:
        """The question with all that a tutor is not shown; CastawayError where the words alone do not tell it."""
        asked, fact = observation.asked, observation.fact
        if self.compact:
            return compact_questions.question_of(asked, fact)
        question = self.bank.find(asked, fact)
        if question is None:
            raise CastawayError(f"the bank of STRICTBOT has no question {asked!r}, so its level is not known")
        return question

    def fact_about(self, asked: str) -> str | None:
        """What is so, according to the first question of the bank with the same words; None if there is none."""
        return self._facts.get(" ".join(self.reader.words(asked)))

    @cached_property
    def _facts(self) -> dict[str, str]:
        rows = ((one.asked, one.false if one.opposite else one.fact) for one in reversed(self.bank.questions))
        return {" ".join(self.reader.words(asked)): fact for asked, fact in rows}


@cache
def language_of(rendering: Rendering) -> Language:
    """The questions and answers of a rendering: `full` for people and instruct models, `compact` for a tiny model."""
    full = rendering == "full"
    folder = "english" if full else "compact"
    tutor = read(f"{folder}/tutor")
    reader = READER if full else compact_questions.READER
    bank = english_questions.bank() if full else compact_questions.bank()
    if full:
        prompts = Prompts(tutor["system"], "Question: ", "", "Known: ", lambda _: (), str.strip, "The sky is blue.")
    else:
        # Punctuation is separated from words, since a small model reads `Madrid` and `Madrid?` as two different words.
        prompts = Prompts(tutor["system"], "asked ", " ?", "known ", _told, _typed, "it is ...")
    return Language(
        name=rendering,
        reader=reader,
        bank=bank,
        prompts=prompts,
        answers=Answers(reader, read(f"{folder}/answers"), tuple(read(f"{folder}/abuse"))),
        judge=Judge(reader, read(f"{folder}/judge"), [question.fact for question in bank.train], tutor["rounds"]),
        limits=Limits(acts=frozenset(tutor["acts"].split()), around=range(*tutor["around"]), **tutor["limits"]),
        **read(f"{folder}/teacher"),  # rubric and request
        reasoning=reasoning if full else lambda _, kind: kind,
        stated=tutor["stated"],
        value_of=str if full else compact_questions.value_of,
        pair_sorts=tutor["pair_sorts"],
    )


def _told(observation: Observation) -> tuple[str, ...]:
    """A line that says whether the question names the fact, alone or among others.

    A model of a million parameters learns to copy words that it has never seen, but not to compare them
    (docs/strictbot.md). None of the line's words occurs in a question or a fact, so a prompt can be read back.
    """
    asked, fact = observation.asked, observation.fact
    if compact_questions.form_of(asked, fact) == "open" and compact_questions.names_fact_among_others(asked, fact):
        return ("told among",)
    return ("told yes" if compact_questions.names_fact(asked, fact) else "told nowhere",)


def _typed(text: str) -> str:
    plain = text.strip().rstrip("?!. ")
    return f"{plain[:1].lower()}{plain[1:]}"
