"""Lets a served teacher write questions with answers ("exercises") for training, and checks what it writes.

The bank is made of templates; a language model has more ways to ask. It is told a kind of question, is shown an example
from the training share of the bank, and writes another question with an answer at each level. Everything is checked:
the schema, the rules for answers, and the words that make a question one of its kind.
"""

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationError

from castaway.config.section import Section
from castaway.envs.strictbot.environment import StrictbotEnvironment, StrictbotRules
from castaway.envs.strictbot.language import Language
from castaway.envs.strictbot.pairs import NO_REASONING
from castaway.envs.strictbot.question_bank import LEVEL_OF, NAMES, Kind, Observation, Question, text_hash
from castaway.envs.strictbot.rewards import factual
from castaway.tasks.environment import Message, Prompt
from castaway.tasks.reply import Reply
from castaway.tasks.task import PairRow, WrittenText

KINDS: tuple[Kind, ...] = ("factual error", "poor logic", "good question", "misconception", "trivial", "good question")
"""The kinds of consecutive requests; each level is deserved by a third of them."""
LEVEL_FIELDS = ((1, "help"), (2, "challenge"), (3, "correction"))
Words = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[ -~]+$")]


class Exercise(Section):
    asked: Words
    fact: Words
    false: Words
    help: Words
    challenge: Words
    correction: Words

    @property
    def answers(self) -> dict[int, str]:
        return {level: getattr(self, name) for level, name in LEVEL_FIELDS}


def demand(held: bool, otherwise: str) -> None:
    if not held:
        raise ValueError(otherwise)


class ExerciseWriter:
    schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {name: {"type": "string", "maxLength": 200} for name in Exercise.model_fields},
        "required": list(Exercise.model_fields),
        "additionalProperties": False,
    }

    def __init__(self, environment: StrictbotEnvironment) -> None:
        self._environment = environment
        self._language = environment.language

    @cached_property
    def known(self) -> frozenset[str]:
        """The identities of all questions of the bank, held-out ones included; an exercise must not repeat one."""
        return frozenset(self.identity_of(question.asked) for question in self._language.bank.questions)

    def identity_of(self, asked: str) -> str:
        """The sorted words of a question: equal for questions that differ only in word order, case or punctuation."""
        return " ".join(sorted(self._language.reader.words(asked)))

    def request(self, number: int) -> list[Message]:
        kind = KINDS[number % len(KINDS)]
        examples = self._examples[kind]
        question = examples[text_hash(f"exercise {number}", len(examples))]
        answers = {name: self._language.answers.all_answers(level, question.fact)[0] for level, name in LEVEL_FIELDS}
        example = {"asked": question.asked, "fact": question.fact, "false": question.false, **answers}
        data = {"number": number, "kind": kind, "deserves": NAMES[LEVEL_OF[kind]], "example": example}
        return [
            {"role": "system", "content": self._language.request},
            {"role": "user", "content": f"<data>\n{json.dumps(data)}\n</data>"},
        ]

    def read(self, number: int, text: str) -> WrittenText:
        try:
            exercise = Exercise.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'the answer'}: {first['msg']}") from None
        kind = KINDS[number % len(KINDS)]
        _check_question(self._language, exercise, kind)
        self._check_answers(exercise)
        prompt = self._environment.prompt_of("tutor_01", Observation(exercise.asked, exercise.fact))
        reply = Reply(kind, exercise.answers[LEVEL_OF[kind]])
        return WrittenText(self.identity_of(exercise.asked), prompt, reply, tuple(_rows(exercise, kind, prompt)))

    def _check_answers(self, exercise: Exercise) -> None:
        language, rules = self._language, StrictbotRules(self._language)
        for level, answer in exercise.answers.items():
            who = f"the answer that is {NAMES[level]}"
            refusal = rules.refusal(Observation(exercise.asked, exercise.fact), answer)
            demand(refusal is None, f"{who}: {refusal.sentence if refusal else ''}")
            demand(factual(answer, exercise.fact, exercise.false, language) == 1.0, f"{who} does not say the fact")
            for other in language.answers.openings_in(answer):
                demand(other == level, f"{who} begins like {NAMES[other]}")

    @cached_property
    def _examples(self) -> dict[Kind, list[Question]]:
        train = self._language.bank.train
        return {kind: [question for question in train if question.kind == kind] for kind in LEVEL_OF}


def _rows(exercise: Exercise, kind: Kind, prompt: Prompt) -> Iterator[PairRow]:
    right = exercise.answers[LEVEL_OF[kind]]
    worse = [answer for level, answer in exercise.answers.items() if level != LEVEL_OF[kind]]
    if exercise.fact in right:
        worse.append(right.replace(exercise.fact, exercise.false))
    for answer in worse:
        yield prompt.messages, str(Reply(NO_REASONING, right)), str(Reply(NO_REASONING, answer))


def _check_question(language: Language, exercise: Exercise, kind: Kind) -> None:
    compact, says, asked = language.compact, language.reader.says, exercise.asked
    for name, sentence in (("fact", exercise.fact), ("false", exercise.false)):
        size = len(sentence.split())
        if compact:
            demand(sentence.startswith("it is ") and size <= 10, f"{name} is no short `it is` sentence")
        else:
            demand(sentence.endswith(".") and size <= 20, f"{name} is no sentence of at most 20 words")
    fact, false = language.value_of(exercise.fact), language.value_of(exercise.false)
    demand(language.reader.words(fact) != language.reader.words(false), "fact and false are the same")
    most = 40 if compact else 60
    demand(3 <= len(asked.split()) <= most, f"asked has fewer than 3 words, or more than {most}")
    if not compact:
        demand(LEVEL_OF[kind] != 3 or not says(asked, fact), "asked says the fact")
        return
    if LEVEL_OF[kind] == 3:
        demand(says(asked, false), "asked does not name what is false")
        demand(not says(asked, fact), "asked names the fact")
    if kind == "trivial":
        demand(says(asked, fact), "asked does not name the fact")
    if kind == "poor logic":
        demand(fact.startswith("perhaps "), "fact does not begin with `it is perhaps`")
