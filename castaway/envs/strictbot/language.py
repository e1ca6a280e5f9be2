"""What differs between the renderings: one object holds all that a tutor is asked, shows, writes and reads.

`castaway.envs.strictbot.renderings` has one for each rendering; environment, players, rules, pairs and reports are the
same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from random import Random

from castaway.envs.strictbot.answers import Answers
from castaway.envs.strictbot.bank import MADE_UP_IDS, Bank
from castaway.envs.strictbot.exercise import Exercise
from castaway.envs.strictbot.judge import Judge
from castaway.envs.strictbot.observation import Observation, Prompts
from castaway.envs.strictbot.question import Kind, Question
from castaway.envs.strictbot.reading import Reader
from castaway.errors import CastawayError


@dataclass(frozen=True, slots=True)
class Limits:
    """What the rules accept as an answer, and what counts as constructive."""

    words: int
    """Largest number of words of an answer."""
    characters: int
    """Largest number of characters of an answer."""
    ascii: bool
    """Whether an answer consists of ASCII characters; otherwise any printable ones are allowed."""
    acts: frozenset[str]
    """Words for what a good tutor asks for or offers."""
    most_acts: int
    """Largest number of `acts` in an answer; more make it a list of words."""
    around: range
    """Numbers of words around the fact of a constructive answer."""
    repeats: int
    """How often one word may stand around the fact."""


@dataclass(frozen=True, slots=True)
class Synthetic:
    """Questions that are not in the bank, but whose kind follows from their words."""

    question_of: Callable[[str, str], Question]
    """The question with this text and this fact."""
    imagined: Callable[[Observation, Random], Observation]
    """A question with other words in it."""
    short: Callable[[Question, Random], Question]
    """A question with other words in it, whose fact is not too long for PPO."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What a served teacher is asked to write."""

    asked: str
    """The request."""
    check: Callable[[Exercise, Kind], None]
    """Raises ValueError if question and fact of an exercise are not of the kind."""


@dataclass(frozen=True, eq=False)
class Language:
    """The questions and answers of one rendering."""

    reader: Reader
    bank: Bank
    prompts: Prompts
    answers: Answers
    judge: Judge
    limits: Limits
    writing: Writing
    rubric: str
    """What a served teacher is told about the task; empty for the text of the file `rubric.txt`."""
    reasoning: Callable[[Question, Kind], str]
    """What a tutor thinks who looks at the question and takes it to be of a kind."""
    stated: str
    """Words that state a fact; an answer may hold them once. Empty: the words of the fact itself."""
    value_of: Callable[[str], str]
    """What a fact, or a false statement, says: the part that no other one has."""
    pair_sorts: tuple[str, ...]
    """The sorts of consecutive groups of preference pairs; see `castaway.envs.strictbot.pairs`."""
    synthetic: Synthetic | None
    """None: all questions are the bank's."""
    whole_words: bool
    """Whether its words get tokens of their own in a base model with `whole_words`."""

    def question_at(self, task_id: int, place: int) -> Question:
        """The question at position `place` of the bank's order or, for `MADE_UP_IDS`, a synthetic one made from it.

        The result is always the same for the same arguments.
        """
        question = self.bank.question_for(task_id, place)
        if self.synthetic and task_id in MADE_UP_IDS:
            return self.synthetic.short(question, Random(place))
        return question

    def question_of(self, asked: str, fact: str) -> Question:
        """The question with these texts: that of the bank, or a synthetic one.

        Raises:
            CastawayError: the bank has no such question, and nothing follows from its words alone.
        """
        if self.bank.holds(asked, fact):
            return self.bank.find(asked, fact)
        if self.synthetic:
            return self.synthetic.question_of(asked, fact)
        raise CastawayError(f"the bank of STRICTBOT has no question {asked!r}, so its level is not known")

    def fact_about(self, asked: str) -> str | None:
        """What is so, according to the first question of the bank with the same words; None if there is none."""
        return self._facts.get(" ".join(self.reader.words(asked)))

    @cached_property
    def _facts(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for question in self.bank.questions:
            fact = question.false if question.opposite else question.fact
            found.setdefault(" ".join(self.reader.words(question.asked)), fact)
        return found

    def question_behind(self, observation: Observation) -> Question:
        """The question with all that a tutor is not shown; see `question_of`."""
        return self.question_of(observation.asked, observation.fact)
