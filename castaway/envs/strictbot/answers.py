"""Writes and reads answers: an opening, the fact, an ending. Opening and ending make the level of strictness."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from random import Random

from castaway.envs.strictbot.bank import drawn, read

LEVELS = (1, 2, 3)
"""Levels of strictness: help, challenge, correction; see `castaway.envs.strictbot.question`."""
_WORD = re.compile(r"[a-z0-9.]*[a-z0-9]")


@cache
def _frames() -> dict[int, tuple[list[str], list[str]]]:
    """Level to its openings and endings."""
    return {level: (found["openings"], found["endings"]) for level, found in read("answers").items()}


@cache
def texts() -> tuple[str, ...]:
    """All openings and endings, and the insults."""
    frames = [line for openings, endings in _frames().values() for line in (*openings, *endings)]
    return (*frames, *insults())


def write(level: int, fact: str, random: Random, ending: bool = True) -> str:
    """A random answer of this level that holds the sentence `fact`."""
    openings, endings = _frames()[level]
    return _joined(random.choice(openings), fact, random.choice(endings) if ending else "")


def all_answers(level: int, fact: str) -> list[str]:
    """Every answer of a level, with each opening and each ending."""
    openings, endings = _frames()[level]
    return [_joined(opening, fact, ending) for opening in openings for ending in endings]


def curt(level: int, random: Random) -> str:
    """An answer of this level that consists of an opening only, without the fact."""
    return random.choice(_frames()[level][0]).rstrip(":")


def insults() -> tuple[str, ...]:
    """Insulting endings, which no correct answer has."""
    return tuple(read("abuse"))


def abusive_answer(level: int, fact: str, random: Random) -> str:
    """An answer like that of `write`, but with an insult as its ending."""
    return _joined(random.choice(_frames()[level][0]), fact, random.choice(insults()))


def proper(level: int, fact: str) -> str:
    """The answer of this level that the expert and the teacher give: always the same for the same fact."""
    found = all_answers(level, fact)
    return found[drawn(fact, len(found))]


@cache
def frame_words() -> frozenset[str]:
    """All words of openings and endings."""
    return frozenset(word for found in _frames().values() for part in found for line in part for word in words(line))


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


# Reading -------------------------------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """The words and numbers of a text, in lower case."""
    return _WORD.findall(text.lower())


def says(text: str, sentence: str) -> bool:
    """Whether a text contains a sentence, word for word."""
    return f" {' '.join(words(sentence))} " in f" {' '.join(words(text))} "


def times(text: str, sentence: str) -> int:
    """How often a text contains a sentence, word for word."""
    # Two spaces between words, because `count` would miss a repetition that shares a space with the one before.
    return f" {' '.join(words(text))} ".replace(" ", "  ").count(f" {'  '.join(words(sentence))} ")


def openings_in(text: str) -> Counter[int]:
    """How many openings of each level a text has; more than one means more than one answer."""
    found = {level: sum(times(text, one) for one in openings) for level, (openings, _) in _frames().items()}
    return +Counter(found)  # the plus drops levels with 0


def statements_in(text: str) -> int:
    """How often a text states a fact ("it is ...")."""
    return times(text, "it is")


def without(text: str, *sentences: str) -> str:
    """The words of a text, without these sentences."""
    left = f" {' '.join(words(text))} "
    for sentence in sentences:
        left = left.replace(f" {' '.join(words(sentence))} ", " ")
    return left.strip()


@cache
def tone_words() -> dict[str, int]:
    """Words that occur at one level only, each with this level."""
    used = {
        level: {word for part in (*openings, *endings) for word in words(part)}
        for level, (openings, endings) in _frames().items()
    }
    counts = Counter(word for found in used.values() for word in found)
    return {word: level for level, found in used.items() for word in found if counts[word] == 1}


def tones(text: str, *sentences: str) -> Counter[int]:
    """How many tone words of each level a text has outside these sentences."""
    known = tone_words()
    return Counter(known[word] for word in words(without(text, *sentences)) if word in known)


def read_level(text: str, *sentences: str) -> int:
    """The level of most tone words of a text, the lowest on a tie; 0 without tone words."""
    found = tones(text, *sentences)
    return min(found, key=lambda level: (-found[level], level), default=0)
