"""Writes and reads answers: an opening, the fact, an ending. Opening and ending make the level of strictness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from castaway.envs.strictbot.bank import drawn
from castaway.envs.strictbot.question import NAMES, Form
from castaway.envs.strictbot.reading import Reader

LEVELS = tuple(NAMES)
"""Levels of strictness: help, challenge, correction; see `castaway.envs.strictbot.question`."""


@dataclass(frozen=True)
class Frames:
    """The openings and endings of a level."""

    openings: tuple[str, ...]
    endings: tuple[str, ...]

    def __add__(self, other: Frames) -> Frames:
        """Those of both."""
        return Frames(self.openings + other.openings, self.endings + other.endings)


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers that can be written in one rendering.

    A level can have more frames for answers to questions of one form: `Yes, that is right` answers a claim, but not
    `what is the capital of Spain`. A form is named wherever the question is known.
    """

    reader: Reader
    general: Mapping[int, Frames]
    """Level to the frames that suit questions of every form."""
    special: Mapping[tuple[int, Form], Frames]
    """Level and form to the frames that suit questions of that form only."""
    insults: tuple[str, ...]
    """Insulting endings, which no correct answer has."""

    @classmethod
    def of(cls, reader: Reader, answers: Mapping[int, Any], insults: list[str]) -> Answers:
        """Make them of the files `answers` and `abuse` of a bank."""
        special = {
            (level, form): _frames(found)
            for level, own in answers.items()
            for form, found in own.get("forms", {}).items()
        }
        return cls(reader, {level: _frames(own) for level, own in answers.items()}, special, tuple(insults))

    # Writing ---------------------------------------------------------------------------------------------------------

    def frames(self, level: int, form: Form | None = None) -> Frames:
        """The frames of a level for questions of a form; for any question without one."""
        own = self.special.get((level, form)) if form else None
        return self.general[level] + own if own else self.general[level]

    def write(self, level: int, fact: str, random: Random, ending: bool = True, form: Form | None = None) -> str:
        """A random answer of this level that holds the sentence `fact`."""
        frames = self.frames(level, form)
        return _joined(random.choice(frames.openings), fact, random.choice(frames.endings) if ending else "")

    def all_answers(self, level: int, fact: str, form: Form | None = None) -> list[str]:
        """Every answer of a level, with each opening and each ending."""
        frames = self.frames(level, form)
        return [_joined(opening, fact, ending) for opening in frames.openings for ending in frames.endings]

    def proper(self, level: int, fact: str, form: Form | None = None) -> str:
        """The answer of this level that the expert and the teacher give: always the same for the same fact."""
        found = self.all_answers(level, fact, form)
        return found[drawn(fact, len(found))]

    def curt(self, level: int, random: Random) -> str:
        """An answer of this level that consists of an opening only, without the fact."""
        return random.choice(self.general[level].openings).rstrip(":")

    def abusive(self, level: int, fact: str, random: Random) -> str:
        """An answer like that of `write`, but with an insult as its ending."""
        return _joined(random.choice(self.general[level].openings), fact, random.choice(self.insults))

    # Reading ---------------------------------------------------------------------------------------------------------

    @cached_property
    def all_frames(self) -> dict[int, Frames]:
        """Level to all of its frames, those for single forms included."""
        return {
            level: sum((own for (one, _), own in self.special.items() if one == level), frames)
            for level, frames in self.general.items()
        }

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """All openings and endings, and the insults."""
        found = [line for frames in self.all_frames.values() for line in (*frames.openings, *frames.endings)]
        return (*dict.fromkeys(found), *self.insults)

    @cached_property
    def words_by_level(self) -> dict[int, frozenset[str]]:
        """Level to the words of its openings and endings."""
        return {
            level: frozenset(word for line in (*frames.openings, *frames.endings) for word in self.reader.words(line))
            for level, frames in self.all_frames.items()
        }

    @cached_property
    def frame_words(self) -> frozenset[str]:
        """All words of openings and endings."""
        return frozenset().union(*self.words_by_level.values())

    @cached_property
    def tone_words(self) -> dict[str, int]:
        """Words that occur at one level only, each with this level."""
        counts = Counter(word for found in self.words_by_level.values() for word in found)
        return {word: level for level, found in self.words_by_level.items() for word in found if counts[word] == 1}

    def openings_in(self, text: str) -> Counter[int]:
        """How many openings of each level a text has; more than one means more than one answer."""
        found = {
            level: sum(self.reader.times(text, one) for one in dict.fromkeys(frames.openings))
            for level, frames in self.all_frames.items()
        }
        return +Counter(found)  # the plus drops levels with 0

    def tones(self, text: str, *sentences: str) -> Counter[int]:
        """How many tone words of each level a text has outside these sentences."""
        words = self.reader.words(self.reader.without(text, *sentences))
        return Counter(self.tone_words[word] for word in words if word in self.tone_words)

    def read_level(self, text: str, *sentences: str) -> int:
        """The level of most tone words of a text, the lowest on a tie; 0 without tone words."""
        found = self.tones(text, *sentences)
        return min(found, key=lambda level: (-found[level], level), default=0)


def _frames(found: Mapping[str, Any]) -> Frames:
    return Frames(tuple(found.get("openings", ())), tuple(found.get("endings", ())))


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
