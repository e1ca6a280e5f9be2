"""Lets a served teacher write questions with answers ("exercises") for training, and checks what it writes.

The bank is made of templates; a language model has more ways to ask. It is told a kind of question, is shown an example
from the training share of the bank, and writes another question with an answer at each level. Everything is checked:
the schema, the rules for answers, and the words that make a question one of its kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

from pydantic import ValidationError

from castaway.envs.strictbot.bank import drawn
from castaway.envs.strictbot.exercise import Exercise, demand
from castaway.envs.strictbot.language import Language
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.pairs import NO_REASONING, Row
from castaway.envs.strictbot.question import LEVELS, NAMES, Kind, Question
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


class Asker(Protocol):
    """Makes prompts of questions; the environment does."""

    language: Language

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
        self._language = asker.language

    @cached_property
    def known(self) -> frozenset[str]:
        """The identities of all questions of the bank, held-out ones included; an exercise must not repeat one."""
        return frozenset(self.identity_of(question.asked) for question in self._language.bank.questions)

    def identity_of(self, asked: str) -> str:
        """The sorted words of a question: equal for questions that differ only in word order, case or punctuation."""
        return " ".join(sorted(self._language.reader.words(asked)))

    def request(self, number: int) -> list[Message]:
        """The messages of request `number`, which determines the kind and the example."""
        kind = KINDS[number % len(KINDS)]
        found = self._examples[kind]
        example = found[drawn(f"exercise {number}", len(found))]
        data = {"number": number, "kind": kind, "deserves": NAMES[LEVELS[kind]], "example": self._told(example)}
        return [
            {"role": "system", "content": self._language.writing.asked},
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
        self._language.writing.check(found, kind)
        self._check_answers(found)
        prompt = self._asker.prompt_of("tutor_01", Observation(found.asked, found.fact))
        return Written(
            self.identity_of(found.asked),
            prompt,
            Reply(kind, found.answers[LEVELS[kind]]),
            tuple(_rows(found, kind, prompt)),
        )

    def _check_answers(self, found: Exercise) -> None:
        """Raise ValueError if an answer is not legal, not true, or begins like those of another level."""
        language, rules = self._language, StrictbotRules(self._language)
        for level, answer in found.answers.items():
            who = f"the answer that is {NAMES[level]}"
            refusal = rules.refusal(Observation(found.asked, found.fact), answer)
            demand(refusal is None, f"{who}: {refusal.sentence if refusal else ''}")
            demand(factual(answer, found.fact, found.false, language) == 1.0, f"{who} does not say the fact")
            for other in language.answers.openings_in(answer):
                demand(other == level, f"{who} begins like {NAMES[other]}")

    def _told(self, question: Question) -> dict[str, str]:
        """A question of the bank in the form of an exercise, as an example."""
        names: Mapping[int, str] = {1: "help", 2: "challenge", 3: "correction"}
        answers = {name: self._language.answers.all_answers(level, question.fact)[0] for level, name in names.items()}
        return {"asked": question.asked, "fact": question.fact, "false": question.false, **answers}

    @cached_property
    def _examples(self) -> dict[Kind, list[Question]]:
        """The questions of the training share, by kind."""
        found: dict[Kind, list[Question]] = {kind: [] for kind in LEVELS}
        for question in self._language.bank.questions:
            if self._language.bank.share_of(question) == "train":
                found[question.kind].append(question)
        return found


def _rows(found: Exercise, kind: Kind, prompt: Prompt) -> Iterator[Row]:
    """Preference pairs: the right answer over those of other levels, and over itself with a false statement."""
    right = found.answers[LEVELS[kind]]
    worse = [answer for level, answer in found.answers.items() if level != LEVELS[kind]]
    if found.fact in right:
        worse.append(right.replace(found.fact, found.false))
    for answer in worse:
        yield prompt.messages, str(Reply(NO_REASONING, right)), str(Reply(NO_REASONING, answer))
