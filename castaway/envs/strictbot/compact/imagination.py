"""Synthetic questions: questions of the bank with other words in them.

A model trained on the bank alone learns its facts by heart and fails on others. With synthetic questions it has to
learn to copy and compare any words.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

from castaway.envs.strictbot.compact.questions import bank, value_of
from castaway.envs.strictbot.compact.telling import core_of, form_of, framed, named, question_of
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.question import Question

KEPT = ("perhaps", "surely", "not")
"""Words that are never replaced, because they decide the kind of a question."""
OTHERS = (0.3, 1.0)
"""Shares of a question's words that are replaced, one of them drawn per question; a fact's words are all replaced."""
LENGTHS = (1, 1, 1, 2, 3)
"""Numbers of words that replace one word of the fact, one of them drawn per word."""
AGAIN = 0.3
"""Share of the replacements of several words in which the first word is repeated, followed by another one."""
UNNAMED = 0.25
"""Share of the open questions naming the fact that are changed not to name it.

The bank has twice as many open questions that name the fact as ones that do not.
"""
LONGEST = 5
"""Largest number of words of the fact in a synthetic question for PPO, about that of the bank's longest facts. Longer
ones are so rarely answered correctly that there is little to learn from them."""


def short_imagined(question: Question, random: Random) -> Question:
    """A synthetic question whose fact is not too long; the original one if 20 attempts give none."""
    for _ in range(20):
        shown = imagined(Observation(question.asked, question.fact), random)
        if len(value_of(shown.fact).split(" ")) <= LONGEST:
            return question_of(shown.asked, shown.fact)
    return question


def imagined(observation: Observation, random: Random) -> Observation:
    """A synthetic question with the same structure and other words; a word is replaced by the same one everywhere.

    A word of the fact can become several, so that a model also has to learn where the fact ends.
    """
    _, before, after = framed(observation.asked)
    core, value = core_of(observation.asked).split(" "), value_of(observation.fact).split(" ")
    share, words = random.choice(OTHERS), iter(random.sample(bank().vocabulary, len(bank().vocabulary)))
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
    return Observation(asked, f"it is {' '.join(known)}")


def _phrase(words: Iterator[str], into: dict[str, str], random: Random) -> str:
    """A few new words; sometimes one is repeated, as in `as often as before`."""
    found = _new(words, into, random.choice(LENGTHS)).split(" ")
    if random.random() < AGAIN:
        found += [found[0], *_new(words, into, 1).split(" ")] if len(found) > 1 else []
    return " ".join(found)


def _new(words: Iterator[str], into: dict[str, str], count: int) -> str:
    """`count` words that are not in the question, separated by spaces."""
    return " ".join(islice((word for word in words if word not in into and word not in KEPT), count))
