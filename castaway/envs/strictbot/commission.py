"""Lets a served teacher write questions with answers ("exercises") for training, and checks what it writes.

The bank is made of templates; a language model has more ways to ask. It is told a kind of question, is shown an example
from the training share of the bank, and writes another question with an answer at each level. Everything is checked:
the schema, the rules for answers, and the words that make a question one of its kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from castaway.envs.strictbot.answers import all_answers, openings_in, says, words
from castaway.envs.strictbot.bank import drawn, questions, share_of
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.pairs import NO_REASONING, Row
from castaway.envs.strictbot.question import LEVELS, NAMES, Kind, Question, value_of
from castaway.envs.strictbot.reward.factual import factual
from castaway.envs.strictbot.teaching import StrictbotRules
from castaway.tasks.environment import Message, Prompt
from castaway.tasks.reply import Reply

KINDS: tuple[Kind, ...] = (
    "factual error",
    "poor logic",
    "good question",
    "misconception",
    "trivial",
    "good question",
)
"""The kinds of consecutive requests; each level is deserved by a third of them."""
ASKED = (
    "You write exercises for a tutor. An exercise is a question, what is known about it, and three answers. Write "
    "one of the kind that you are told, about something else than the example. Plain words, no question mark. "
    "`fact` and `false` begin with `it is`, in at most eight words; `false` is what is not so. "
    "A factual error or a misconception ends in what is false and does not name the fact. A trivial question names the "
    "fact. Where the logic is poor, the fact is `it is perhaps` and what else may be. "
    "Each answer is one civil sentence that contains the fact, word for word, and nothing false: `help` offers help, "
    "`challenge` challenges the reasoning, `correction` corrects firmly. Answer with one JSON object."
)
Words = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[ -~]+$")]


class Exercise(BaseModel):
    """One question with its answers, as the teacher writes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    asked: Words
    fact: Words
    false: Words
    help: Words
    challenge: Words
    correction: Words

    @property
    def answers(self) -> dict[int, str]:
        """Level to answer."""
        return {1: self.help, 2: self.challenge, 3: self.correction}


class Asker(Protocol):
    """Makes prompts of questions; the environment does."""

    def prompt_of(self, agent: str, observation: Observation) -> Prompt:
        """The prompt of a tutor with this question."""


@dataclass(frozen=True)
class Written:
    """The training data from one exercise; a `WrittenText`."""

    identity: str
    """Equal for questions that differ only in word order, case or punctuation."""
    prompt: Prompt
    reply: Reply
    pairs: tuple[Row, ...]


class Commission:
    """Requests exercises by number, and reads them; a `WritingTask`."""

    schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {name: {"type": "string", "maxLength": 200} for name in Exercise.model_fields},
        "required": list(Exercise.model_fields),
        "additionalProperties": False,
    }

    def __init__(self, asker: Asker) -> None:
        """Make prompts of exercises with `asker`, in the way that it shows questions."""
        self._asker = asker

    @property
    def known(self) -> frozenset[str]:
        """The identities of all questions of the bank, held-out ones included; an exercise must not repeat one."""
        return _bank()

    def request(self, number: int) -> list[Message]:
        """The messages of request `number`, which determines the kind and the example."""
        kind = KINDS[number % len(KINDS)]
        found = _examples()[kind]
        example = found[drawn(f"exercise {number}", len(found))]
        data = {"number": number, "kind": kind, "deserves": NAMES[LEVELS[kind]], "example": _told(example)}
        return [
            {"role": "system", "content": ASKED},
            {"role": "user", "content": f"<data>\n{json.dumps(data)}\n</data>"},
        ]

    def read(self, number: int, text: str) -> Written:
        """Read the answer to request `number`.

        Raises:
            ValueError: it is not a valid exercise; the message says why in a few words that the teacher can be shown.
        """
        try:
            found = Exercise.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'the answer'}: {first['msg']}") from None
        kind = KINDS[number % len(KINDS)]
        _check(found, kind)
        prompt = self._asker.prompt_of("tutor_01", Observation(found.asked, found.fact))
        return Written(
            identity_of(found.asked),
            prompt,
            Reply(kind, found.answers[LEVELS[kind]]),
            tuple(_rows(found, kind, prompt)),
        )


def identity_of(asked: str) -> str:
    """The sorted words of a question: equal for questions that differ only in word order, case or punctuation."""
    return " ".join(sorted(words(asked)))


def _check(found: Exercise, kind: Kind) -> None:
    """Raise ValueError if the question is not of the kind, or an answer not of its level."""
    fact, false = value_of(found.fact), value_of(found.false)
    for name, sentence in (("fact", found.fact), ("false", found.false)):
        _demand(sentence.startswith("it is ") and len(sentence.split()) <= 10, f"{name} is no short `it is` sentence")
    _demand(words(fact) != words(false), "fact and false are the same")
    _demand(3 <= len(found.asked.split()) <= 40, "asked has fewer than 3 words, or more than 40")
    if LEVELS[kind] == 3:
        _demand(says(found.asked, false), "asked does not name what is false")
        _demand(not says(found.asked, fact), "asked names the fact")
    if kind == "trivial":
        _demand(says(found.asked, fact), "asked does not name the fact")
    if kind == "poor logic":
        _demand(fact.startswith("perhaps "), "fact does not begin with `it is perhaps`")
    for level, answer in found.answers.items():
        refusal = StrictbotRules().refusal(Observation(found.asked, found.fact), answer)
        _demand(refusal is None, f"the answer that is {NAMES[level]}: {refusal.sentence if refusal else ''}")
        _demand(
            factual(answer, found.fact, found.false) == 1.0, f"the answer that is {NAMES[level]} does not say the fact"
        )
        for other in openings_in(answer):
            _demand(other == level, f"the answer that is {NAMES[level]} begins like {NAMES[other]}")


def _demand(held: bool, otherwise: str) -> None:
    if not held:
        raise ValueError(otherwise)


def _rows(found: Exercise, kind: Kind, prompt: Prompt) -> Iterator[Row]:
    """Preference pairs: the right answer over those of other levels, and over itself with a false statement."""
    right = found.answers[LEVELS[kind]]
    worse = [answer for level, answer in found.answers.items() if level != LEVELS[kind]]
    if found.fact in right:
        worse.append(right.replace(found.fact, found.false))
    for answer in worse:
        yield prompt.messages, str(Reply(NO_REASONING, right)), str(Reply(NO_REASONING, answer))


def _told(question: Question) -> dict[str, str]:
    """A question of the bank in the form of an exercise, as an example."""
    names: Mapping[int, str] = {1: "help", 2: "challenge", 3: "correction"}
    answers = {name: all_answers(level, question.fact)[0] for level, name in names.items()}
    return {"asked": question.asked, "fact": question.fact, "false": question.false, **answers}


@cache
def _bank() -> frozenset[str]:
    return frozenset(identity_of(question.asked) for question in questions())


@cache
def _examples() -> dict[Kind, list[Question]]:
    found: dict[Kind, Any] = {kind: [] for kind in LEVELS}
    for question in questions():
        if share_of(question) == "train":
            found[question.kind].append(question)
    return found
