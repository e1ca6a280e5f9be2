"""Preference pairs, made so that no answer is better in itself: only who reads the question can tell.

Four sorts, the first three balanced within a group of pairs:

- level: two questions that deserve different levels, each with both answers around its own fact; what is chosen for
  the one is rejected for the other;
- curt: with the same two questions, right and full over right and curt, and right and curt over wrong and full;
- fact: two questions, of one family (value) or of any (topic), with each other's facts: what is true of the one is
  false of the other;
- abuse: a right answer, and the same with an insult for its ending. It is always the worse one, so there are few.

Both answers of a pair bear the same reasoning, a kind drawn at random or none: it is not what is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from castaway.envs.strictbot.answers import abusive_answer, curt, insults, says, without, words, write
from castaway.envs.strictbot.bank import reserved
from castaway.envs.strictbot.judge import produced_levels
from castaway.envs.strictbot.observation import read_back
from castaway.envs.strictbot.question import LEVELS, Question
from castaway.envs.strictbot.reward.factual import factual
from castaway.envs.strictbot.telling import question_of
from castaway.tasks.environment import Message, Prompt
from castaway.tasks.reply import Reply, parse_reply

Row = tuple[tuple[Message, ...], str, str]
"""A prompt's messages, the answer to prefer, the other one."""
SORTS = (*("level", "level", "curt", "value", "level", "level", "topic") * 3, "abuse")
NO_REASONING = "a question"


def preference_pairs(prompts: Sequence[Prompt], count: int, random: Random) -> list[Row]:
    """About `count` pairs, no more, for these prompts, in whole groups."""
    asked = [(prompt, question_of(prompt.observation.asked, prompt.observation.fact)) for prompt in prompts]
    by_family: dict[str, list[tuple[Prompt, Question]]] = {}
    for prompt, question in asked:
        if question.form == "check":
            by_family.setdefault(question.family, []).append((prompt, question))
    relations = [found for found in by_family.values() if len({question.fact for _, question in found}) > 1]
    rows: list[Row] = []
    number = 0
    while True:
        sort = SORTS[number % len(SORTS)]
        number += 1
        reasoning = random.choice([NO_REASONING, *sorted(LEVELS)])
        if sort == "value" and not relations:
            continue
        group = list(_value_group(random.choice(relations), random) if sort == "value" else _group(sort, asked, random))
        if len(rows) + len(group) > count:
            return rows
        rows += [
            (prompt.messages, str(Reply(reasoning, better)), str(Reply(reasoning, worse)))
            for prompt, better, worse in group
        ]


Group = Iterator[tuple[Prompt, str, str]]


def _group(sort: str, asked: Sequence[tuple[Prompt, Question]], random: Random) -> Group:
    """Pairs of two questions of different levels."""
    (one, first), (other, second) = _two(asked, random, lambda a, b: a.level != b.level and a.fact != b.fact)
    frames = random.randrange(2**31)  # the same frames around both facts
    mirrored = ((one, first, second.level), (other, second, first.level))
    for prompt, question, wrong_level in mirrored:
        right = write(question.level, question.fact, Random(frames))
        wrong = write(wrong_level, question.fact, Random(frames))
        if sort == "level":
            yield prompt, right, wrong
        elif sort == "curt":
            short = curt(question.level, Random(frames))
            yield prompt, right, short
            yield prompt, short, wrong
        elif sort == "abuse":
            yield prompt, right, abusive_answer(question.level, question.fact, Random(frames))
        else:
            elsewhere = second.fact if question is first else first.fact
            yield prompt, write(3, question.fact, Random(frames)), write(3, elsewhere, Random(frames))


def _value_group(found: Sequence[tuple[Prompt, Question]], random: Random) -> Group:
    """Two facts of a family, true and with each other's value, in an answer of the same level."""
    (one, first), (other, second) = _two(found, random, lambda a, b: a.fact != b.fact)
    frames, level = random.randrange(2**31), random.choice([first.level, second.level])
    for prompt, question, elsewhere in ((one, first, second), (other, second, first)):
        yield prompt, write(level, question.fact, Random(frames)), write(level, elsewhere.fact, Random(frames))


def _two(
    found: Sequence[tuple[Prompt, Question]], random: Random, fit: Callable[[Question, Question], bool]
) -> Sequence[tuple[Prompt, Question]]:
    """Two of them that fit together."""
    while True:
        two = random.choice(found), random.choice(found)
        if fit(two[0][1], two[1][1]):
            return two


def pair_group(messages: Sequence[Message], chosen: str, rejected: str) -> dict[str, str]:
    """What a report sorts a pair by.

    The kind and the family of its question, whether training drew the family, and what is wrong with the rejected
    answer: its level, that it says nothing, both (a curt answer of the right level was chosen), its fact, or abuse.
    """
    shown = read_back(messages)
    question = question_of(shown.asked, shown.fact)
    has_fact = tuple(says(parse_reply(answer).action, question.fact) for answer in (chosen, rejected))
    if has_fact == (True, False):
        frame = without(parse_reply(chosen).action, question.fact)
        wrong = "fact" if len(words(frame)) < len(words(parse_reply(rejected).action)) else "curt"
    elif parse_reply(rejected).action.endswith(insults()):
        wrong = "abuse"
    else:
        wrong = "level" if all(has_fact) else "level, against a curt one"
    return {
        "kind": question.kind,
        "family": question.family,
        "families": "new" if reserved(question) else "known",
        "wrong": wrong,
    }


def fits(answers: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
    """How well answers suit their questions: 2/3 for the level, as the judge reads it, and 1/3 for the fact.

    So it orders answers as the pairs do: right and full, right and curt or false, wrong but true, wrong and curt.
    """
    asked = [read_back(messages) for messages, _ in answers]
    found = [question_of(shown.asked, shown.fact) for shown in asked]
    texts = [parse_reply(answer).action for _, answer in answers]
    levels = produced_levels([(text, question.fact) for text, question in zip(texts, found, strict=True)])
    return [
        (2.0 * (level == question.level) + factual(text, question.fact, question.false)) / 3
        for text, question, level in zip(texts, found, levels, strict=True)
    ]
