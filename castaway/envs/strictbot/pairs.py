"""Preference pairs of STRICTBOT, made so that a reward model has to read the question.

There are five sorts; the first four are balanced, so that no answer is better without its question:

- level: two questions that deserve different levels, each with an answer of both levels around its own fact; the level
  chosen for one question is rejected for the other;
- alike: the same with two questions of one form, and frames for that form;
- curt: for two questions as in `level`, right level with fact over right level without fact, and that over wrong level
  with fact;
- fact: two questions of one family (`value`) or of any family (`topic`), with each other's facts: what is true for one
  is false for the other;
- abuse: a right answer over the same one with an insult as its ending. This sort cannot be balanced, so it is rare.

Both answers of a pair have the same reasoning, which ends in a random kind or is none, so that it does not influence
the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from castaway.envs.strictbot.language import Language
from castaway.envs.strictbot.question import LEVELS, Question
from castaway.envs.strictbot.reward.factual import factual
from castaway.tasks.environment import Message, Prompt
from castaway.tasks.reply import Reply, parse_reply

Row = tuple[tuple[Message, ...], str, str]
"""A preference pair: the messages of a prompt, the preferred reply, the rejected reply."""
NO_REASONING = "a question"
"""A reasoning without content."""


def preference_pairs(language: Language, prompts: Sequence[Prompt], count: int, random: Random) -> list[Row]:
    """At most `count` pairs for these prompts, in whole groups; their sorts are `Language.pair_sorts`."""
    asked = [(prompt, language.question_behind(prompt.observation)) for prompt in prompts]
    by_family: dict[str, list[tuple[Prompt, Question]]] = {}
    for prompt, question in asked:
        if question.form == "check":
            by_family.setdefault(question.family, []).append((prompt, question))
    relations = [found for found in by_family.values() if len({question.fact for _, question in found}) > 1]
    rows: list[Row] = []
    number = 0
    while True:
        sort = language.pair_sorts[number % len(language.pair_sorts)]
        number += 1
        kind = random.choice([NO_REASONING, *sorted(LEVELS)])
        if sort == "value" and not relations:
            continue
        if sort == "value":
            group = list(_value_group(language, random.choice(relations), random))
        else:
            group = list(_group(language, sort, asked, random))
        if len(rows) + len(group) > count:
            return rows
        rows += [_row(language, prompt, kind, better, worse) for prompt, better, worse in group]


def _row(language: Language, prompt: Prompt, kind: str, better: str, worse: str) -> Row:
    """A pair whose replies both take the question to be of this kind, which may be `NO_REASONING`."""
    found = next((known for known in LEVELS if known == kind), None)
    reasoning = language.reasoning(language.question_behind(prompt.observation), found) if found else kind
    return prompt.messages, str(Reply(reasoning, better)), str(Reply(reasoning, worse))


Group = Iterator[tuple[Prompt, str, str]]


def _group(language: Language, sort: str, asked: Sequence[tuple[Prompt, Question]], random: Random) -> Group:
    """A group of pairs from two questions of different levels."""
    (one, first), (other, second) = _two(asked, random, _alike if sort == "alike" else _unlike)
    answers = language.answers
    form = first.form if sort == "alike" else None
    frames = random.randrange(2**31)  # a seed: the same opening and ending around both facts
    mirrored = ((one, first, second.level), (other, second, first.level))
    for prompt, question, wrong_level in mirrored:
        right = answers.write(question.level, question.fact, Random(frames), form=form)
        wrong = answers.write(wrong_level, question.fact, Random(frames), form=form)
        if sort in ("level", "alike"):
            yield prompt, right, wrong
        elif sort == "curt":
            short = answers.curt(question.level, Random(frames))
            yield prompt, right, short
            yield prompt, short, wrong
        elif sort == "abuse":
            yield prompt, right, answers.abusive(question.level, question.fact, Random(frames))
        else:
            elsewhere = second.fact if question is first else first.fact
            yield (
                prompt,
                answers.write(3, question.fact, Random(frames)),
                answers.write(3, elsewhere, Random(frames)),
            )


def _value_group(language: Language, found: Sequence[tuple[Prompt, Question]], random: Random) -> Group:
    """A group of two pairs from two questions of a family: the own fact over the other's, at the same level."""
    (one, first), (other, second) = _two(found, random, lambda a, b: a.fact != b.fact)
    frames, level = random.randrange(2**31), random.choice([first.level, second.level])
    write = language.answers.write
    for prompt, question, elsewhere in ((one, first, second), (other, second, first)):
        yield prompt, write(level, question.fact, Random(frames)), write(level, elsewhere.fact, Random(frames))


def _unlike(one: Question, other: Question) -> bool:
    """Whether two questions have different levels and different facts."""
    return one.level != other.level and one.fact != other.fact


def _alike(one: Question, other: Question) -> bool:
    """Whether two questions of one form have different levels and different facts."""
    return one.form == other.form and _unlike(one, other)


def _two(
    found: Sequence[tuple[Prompt, Question]], random: Random, fit: Callable[[Question, Question], bool]
) -> Sequence[tuple[Prompt, Question]]:
    """Two random questions that `fit`."""
    while True:
        two = random.choice(found), random.choice(found)
        if fit(two[0][1], two[1][1]):
            return two


def pair_group(language: Language, messages: Sequence[Message], chosen: str, rejected: str) -> dict[str, str]:
    """The groups of a pair for the report of the reward model.

    They are the kind and the family of its question, whether training uses the family (`families`), and what is wrong
    with the rejected answer (`wrong`): its level, its level against a curt chosen answer, a missing fact (`curt`), a
    false fact (`fact`), or abuse.
    """
    reader, question = language.reader, language.question_behind(language.prompts.read_back(messages))
    has_fact = tuple(reader.says(parse_reply(answer).action, question.fact) for answer in (chosen, rejected))
    if has_fact == (True, False):
        frame = reader.without(parse_reply(chosen).action, question.fact)
        wrong = "fact" if len(reader.words(frame)) < len(reader.words(parse_reply(rejected).action)) else "curt"
    elif parse_reply(rejected).action.endswith(language.answers.insults):
        wrong = "abuse"
    else:
        wrong = "level" if all(has_fact) else "level, against a curt one"
    return {
        "kind": question.kind,
        "family": question.family,
        "families": "new" if language.bank.reserved(question) else "known",
        "wrong": wrong,
    }


def fits(language: Language, answers: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
    """How well each answer suits its question, 0 to 1: 2/3 for the level, as the judge reads it, and 1/3 for the fact.

    This is the order of the pairs: right level with fact, right level without fact or with a false one, wrong level
    with fact, wrong level without fact.
    """
    found = [language.question_behind(language.prompts.read_back(messages)) for messages, _ in answers]
    texts = [parse_reply(answer).action for _, answer in answers]
    levels = language.judge.produced_levels(
        [(text, question.fact) for text, question in zip(texts, found, strict=True)]
    )
    return [
        (2.0 * (level == question.level) + factual(text, question.fact, question.false, language)) / 3
        for text, question, level in zip(texts, found, levels, strict=True)
    ]
