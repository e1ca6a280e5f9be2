"""Made-up questions: those of the bank with other words in them, for who has to copy and to compare any word.

Whoever reads the bank alone learns its facts by heart, and fails where it meets others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

from castaway.envs.strictbot.bank import MADE_UP_IDS, question_for, vocabulary
from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.question import Question, value_of
from castaway.envs.strictbot.telling import core_of, form_of, framed, named, question_of

KEPT = ("perhaps", "surely", "not")
"""Words that decide what a question deserves."""
OTHERS = (0.3, 1.0)
"""Shares of a question's words that become others; those of what is known all do."""
LENGTHS = (1, 1, 1, 2, 3)
"""Words that one word of what is known becomes."""
AGAIN = 0.3
"""Share of those with more than one in which the first comes back before another."""
UNNAMED = 0.25
"""Share of the open questions which hold what is known that no longer do: the bank has two of them for one other."""


LONGEST = 5
"""Words of what is known in a made-up question that is answered for a reward, about as many as the bank's longest have:
of longer ones so few are said that there is little to learn from."""


def question_at(task_id: int, place: int) -> Question:
    """The question at a place of the bank's order, or for some ids one made up from it: always the same one."""
    question = question_for(task_id, place)
    return short_imagined(question, Random(place)) if task_id in MADE_UP_IDS else question


def short_imagined(question: Question, random: Random) -> Question:
    """A made-up question, of the first few that come the first that is not too long."""
    for _ in range(20):
        shown = imagined(Observation(question.asked, question.fact), random)
        if len(value_of(shown.fact).split(" ")) <= LONGEST:
            return question_of(shown.asked, shown.fact)
    return question


def imagined(observation: Observation, random: Random) -> Observation:
    """A question alike in all but its words: each becomes another one, the same wherever it stands.

    A word of what is known becomes a few, so that where it ends has to be found too.
    """
    _, before, after = framed(observation.asked)
    core, value = core_of(observation.asked).split(" "), value_of(observation.fact).split(" ")
    share, words = random.choice(OTHERS), iter(random.sample(vocabulary(), len(vocabulary())))
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
    """A few new words, some of which come back, as in `as often as before`."""
    found = _new(words, into, random.choice(LENGTHS)).split(" ")
    if random.random() < AGAIN:
        found += [found[0], *_new(words, into, 1).split(" ")] if len(found) > 1 else []
    return " ".join(found)


def _new(words: Iterator[str], into: dict[str, str], count: int) -> str:
    """So many words which the question does not have."""
    return " ".join(islice((word for word in words if word not in into and word not in KEPT), count))
