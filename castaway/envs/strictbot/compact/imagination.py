"""Synthetic questions: questions of the bank with other words in them.

A model trained on the bank alone learns its facts by heart and fails on others. With synthetic questions it has to
learn to copy and compare any words. The words are those of the questions that training uses, and coined ones: words of
families that it never meets stay unknown to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from random import Random

from castaway.envs.strictbot.compact.questions import bank, read, value_of
from castaway.envs.strictbot.compact.telling import by_rule, core_of, form_of, framed, named, question_of
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.question import Question

KEPT = ("perhaps", "surely", "not", "and")
"""Words that are never replaced, because they decide the kind of a question: see `telling.by_rule`."""
OTHERS = (0.3, 1.0)
"""Shares of a question's words that are replaced, one of them drawn per question; a fact's words are all replaced."""
LENGTHS = (1, 1, 1, 2, 3)
"""Numbers of words that replace one word of the fact, one of them drawn per word."""
AGAIN = 0.6
"""Share of the replacements of several words in which the first word is repeated, followed by another one."""
LINKED = 0.5
"""Share of the other replacements of several words in which one of `links` stands between them.

No fact of the questions that training uses has one. Without these a model takes the `and` of a fact for the beginning
of the answer's ending.
"""
COINED = 0.5
"""Share of the new words that no question has, and that are no tokens: so words of several tokens are nothing new."""
NUMBERS = 0.2
"""Share of the coined words that are numbers."""
UNNAMED = 0.25
"""Share of the open questions naming the fact that are changed not to name it.

The bank has twice as many open questions that name the fact as ones that do not.
"""
AMONG_OTHERS = 0.5
"""Share of the open questions about one thing `and` another that are changed to have one of the two as their fact.

They name their answer and have to be answered all the same; the bank has few such questions.
"""
EXCHANGED = 0.5
"""Share of PPO's synthetic conclusions in which `perhaps` and `surely` are exchanged: then only they tell the kind."""
LONGEST = 5
"""Largest number of words of the fact in a synthetic question for PPO, about that of the bank's longest facts. Longer
ones are so rarely answered correctly that there is little to learn from them."""


def short_imagined(question: Question, random: Random) -> Question:
    """A synthetic question whose fact is not too long; the original one if 20 attempts give none."""
    for _ in range(20):
        shown = imagined(Observation(question.asked, question.fact), random)
        if len(value_of(shown.fact).split(" ")) <= LONGEST:
            return question_of(shown.asked, _exchanged(shown, random))
    return question


def _exchanged(observation: Observation, random: Random) -> str:
    """The fact; for a share of the conclusions with `perhaps` for `surely`, or `surely` for `perhaps`."""
    first, *others = value_of(observation.fact).split(" ")
    if form_of(observation.asked, observation.fact) == "conclusion" and random.random() < EXCHANGED:
        first = {"perhaps": "surely", "surely": "perhaps"}[first]
    return " ".join(("it is", first, *others))


def imagined(observation: Observation, random: Random) -> Observation:
    """A synthetic question with the same structure and other words; a word is replaced by the same one everywhere.

    A word of the fact can become several, so that a model also has to learn where the fact ends. Questions whose kind
    the rule does not tell (`the colour of a ripe orange`) stay as they are: with other words it would be wrong.
    """
    if not _told_by_rule(observation):
        return observation
    _, before, after = framed(observation.asked)
    core, value = core_of(observation.asked).split(" "), value_of(observation.fact).split(" ")
    share, words = random.choice(OTHERS), _other_words(random)
    into = {word: word for word in (*core, *value)}
    for word in dict.fromkeys(core):
        if word not in KEPT and random.random() < share:
            into[word] = _new(words, into, 1)
    for word in dict.fromkeys(value):
        if word not in KEPT:
            into[word] = _phrase(words, into, random)
    asked = before + " ".join(into[word] for word in core) + after
    known = [into[word] for word in value]
    is_open = form_of(observation.asked, observation.fact) == "open"
    if is_open and named(observation.asked, observation.fact) and random.random() < UNNAMED:
        known[-1] = _new(words, into, 1)
    elif is_open and "and" in core[1:-1] and random.random() < AMONG_OTHERS:
        known = [into[core[core.index("and") + random.choice((-1, 1))]]]
    return Observation(asked, f"it is {' '.join(known)}")


def _told_by_rule(observation: Observation) -> bool:
    """Whether the rule gives the kind that the bank says; always for questions that are not in the bank."""
    asked, fact = observation.asked, observation.fact
    return not bank().holds(asked, fact) or bank().find(asked, fact).kind == by_rule(asked, fact)


def _other_words(random: Random) -> Iterator[str]:
    """Words in a random order, none of them twice: of questions that training uses, with coined ones among them."""
    coined: set[str] = set()
    for word in random.sample(bank().vocabulary, len(bank().vocabulary)):
        if random.random() < COINED:
            word = _coined(random)
            if word in coined or word in bank().all_words:
                continue
            coined.add(word)
        yield word


@cache
def _long_words() -> tuple[str, ...]:
    return tuple(word for word in bank().vocabulary if word.isalpha() and len(word) > 3)


def _coined(random: Random) -> str:
    """The beginning of a word with the end of another, or a number."""
    if random.random() < NUMBERS:
        return str(random.randrange(100, 2000))
    one, other = random.choice(_long_words()), random.choice(_long_words())
    return one[: len(one) // 2 + 1] + other[len(other) // 2 :].lower()


def _phrase(words: Iterator[str], into: dict[str, str], random: Random) -> str:
    """A few new words; sometimes one is repeated, as in `as often as before`, or a linking word joins them."""
    found = _new(words, into, random.choice(LENGTHS)).split(" ")
    if len(found) > 1 and random.random() < AGAIN:
        found += [found[0], *_new(words, into, 1).split(" ")]
    elif len(found) > 1 and random.random() < LINKED:
        found.insert(random.randrange(1, len(found)), random.choice(links()))
    return " ".join(found)


@cache
def links() -> tuple[str, ...]:
    """The words with which endings of answers begin, such as `and`."""
    levels = read("answers").values()
    return tuple(sorted({ending.split(" ")[0] for level in levels for ending in level["endings"]}))


def _new(words: Iterator[str], into: dict[str, str], count: int) -> str:
    """`count` words that are not in the question, separated by spaces."""
    return " ".join(islice((word for word in words if word not in into and word not in KEPT), count))
