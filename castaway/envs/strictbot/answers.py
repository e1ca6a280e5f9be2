"""Answers: an opening, the fact, an ending. The words around the fact make the level, which can be read off them."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from random import Random

from castaway.envs.strictbot.bank import drawn, read

LEVELS = (1, 2, 3)
_WORD = re.compile(r"[a-z0-9.]*[a-z0-9]")


@cache
def _frames() -> dict[int, tuple[list[str], list[str]]]:
    """Openings and endings by level."""
    return {level: (found["openings"], found["endings"]) for level, found in read("answers").items()}


@cache
def texts() -> tuple[str, ...]:
    """All openings and endings, of answers, and the insults that no answer has."""
    frames = [line for openings, endings in _frames().values() for line in (*openings, *endings)]
    return (*frames, *insults())


def write(level: int, fact: str, random: Random, ending: bool = True) -> str:
    """An answer of this level with this sentence in it."""
    openings, endings = _frames()[level]
    return _joined(random.choice(openings), fact, random.choice(endings) if ending else "")


def all_answers(level: int, fact: str) -> list[str]:
    """Every answer of a level with an ending."""
    openings, endings = _frames()[level]
    return [_joined(opening, fact, ending) for opening in openings for ending in endings]


def curt(level: int, random: Random) -> str:
    """An answer of this level that says nothing but so."""
    return random.choice(_frames()[level][0]).rstrip(":")


def insults() -> tuple[str, ...]:
    """Endings that no answer has."""
    return tuple(read("abuse"))


def abusive_answer(level: int, fact: str, random: Random) -> str:
    """The answer that `write` gives, with an insult for its ending."""
    return _joined(random.choice(_frames()[level][0]), fact, random.choice(insults()))


def proper(level: int, fact: str) -> str:
    """The answer of this level that a teacher gives: always the same for the same fact."""
    found = all_answers(level, fact)
    return found[drawn(fact, len(found))]


@cache
def frame_words() -> frozenset[str]:
    """Every word that openings and endings are made of."""
    return frozenset(word for found in _frames().values() for part in found for line in part for word in words(line))


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


# Reading -------------------------------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """Its words and numbers in small letters."""
    return _WORD.findall(text.lower())


def says(text: str, sentence: str) -> bool:
    """Whether a text contains a sentence, word for word."""
    return f" {' '.join(words(sentence))} " in f" {' '.join(words(text))} "


def times(text: str, sentence: str) -> int:
    """How often a text contains a sentence."""
    return f" {' '.join(words(text))} ".replace(" ", "  ").count(f" {'  '.join(words(sentence))} ")


def openings_in(text: str) -> Counter[int]:
    """How many openings of each level a text has: more than one make more than one answer."""
    found = {level: sum(times(text, one) for one in openings) for level, (openings, _) in _frames().items()}
    return +Counter(found)


def statements_in(text: str) -> int:
    """How often a text says what something is."""
    return times(text, "it is")


def without(text: str, *sentences: str) -> str:
    """The words of a text around these sentences."""
    left = f" {' '.join(words(text))} "
    for sentence in sentences:
        left = left.replace(f" {' '.join(words(sentence))} ", " ")
    return left.strip()


@cache
def tone_words() -> dict[str, int]:
    """Words that are said at one level alone, and that level."""
    used = {
        level: {word for part in (*openings, *endings) for word in words(part)}
        for level, (openings, endings) in _frames().items()
    }
    counts = Counter(word for found in used.values() for word in found)
    return {word: level for level, found in used.items() for word in found if counts[word] == 1}


def tones(text: str, *sentences: str) -> Counter[int]:
    """How many tone words of each level a text has, these sentences left out."""
    known = tone_words()
    return Counter(known[word] for word in words(without(text, *sentences)) if word in known)


def read_level(text: str, *sentences: str) -> int:
    """The level that most of its tone words belong to; 0 if there is none."""
    found = tones(text, *sentences)
    return min(found, key=lambda level: (-found[level], level), default=0)
