"""Writes, reads and judges answers: an opening, the fact, an ending. Opening and ending make the level."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from random import Random
from typing import Any, NamedTuple

from castaway.envs.strictbot.question_bank import Form, text_hash

SURE = 0.5  # smallest probability at which the judge takes a level for produced


@dataclass(frozen=True, slots=True)
class Reader:
    words: Callable[[str], Sequence[str]]  # the words and numbers of a text, in lower case

    def says(self, text: str, sentence: str) -> bool:
        return f" {' '.join(self.words(sentence))} " in f" {' '.join(self.words(text))} "

    def times(self, text: str, sentence: str) -> int:
        # Two spaces between words, because `count` would miss a repetition that shares a space with the one before.
        spaced = f" {' '.join(self.words(text))} ".replace(" ", "  ")
        return spaced.count(f" {'  '.join(self.words(sentence))} ")

    def without(self, text: str, *sentences: str) -> str:
        left = f" {' '.join(self.words(text))} "
        for sentence in sentences:
            left = left.replace(f" {' '.join(self.words(sentence))} ", " ")
        return left.strip()

    def around(self, text: str, sentence: str) -> tuple[str, str]:
        """The words before and after a sentence, without it; all are before it if the text does not contain it."""
        before, _, after = f" {' '.join(self.words(text))} ".partition(f" {' '.join(self.words(sentence))} ")
        return before.strip(), self.without(after, sentence)


class Frames(NamedTuple):
    openings: list[str]
    endings: list[str]


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers that can be written in one rendering.

    A level can have more frames for one form of question: `Yes, that is right` answers a claim, but no open question.
    """

    reader: Reader
    levels: Mapping[int, Mapping[str, Any]]  # the file `answers`: openings and endings by level, under `forms` by form
    insults: tuple[str, ...]  # insulting endings, which no correct answer has

    # Writing ---------------------------------------------------------------------------------------------------------

    def frames(self, level: int, form: Form | None = None) -> Frames:
        own = self.levels[level]
        return _together(own, own.get("forms", {}).get(form, {}))

    def write(self, level: int, fact: str, random: Random, ending: bool = True, form: Form | None = None) -> str:
        """A random answer of this level that holds the sentence `fact`."""
        frames = self.frames(level, form)
        return _joined(random.choice(frames.openings), fact, random.choice(frames.endings) if ending else "")

    def all_answers(self, level: int, fact: str, form: Form | None = None) -> list[str]:
        frames = self.frames(level, form)
        return [_joined(opening, fact, ending) for opening in frames.openings for ending in frames.endings]

    def proper(self, level: int, fact: str, form: Form | None = None) -> str:
        """The answer of this level that the expert and the teacher give: always the same for the same fact."""
        answers = self.all_answers(level, fact, form)
        return answers[text_hash(fact, len(answers))]

    def curt(self, level: int, random: Random) -> str:
        return random.choice(self.frames(level).openings).rstrip(":")

    def abusive(self, level: int, fact: str, random: Random) -> str:
        return _joined(random.choice(self.frames(level).openings), fact, random.choice(self.insults))

    # Reading ---------------------------------------------------------------------------------------------------------

    @cached_property
    def all_frames(self) -> dict[int, Frames]:
        return {level: _together(own, *own.get("forms", {}).values()) for level, own in self.levels.items()}

    @cached_property
    def texts(self) -> tuple[str, ...]:
        lines = [line for frames in self.all_frames.values() for line in (*frames.openings, *frames.endings)]
        return (*dict.fromkeys(lines), *self.insults)

    @cached_property
    def frame_words(self) -> dict[str, set[int]]:
        """Each word of the openings and endings, with the levels that it occurs at."""
        levels: dict[str, set[int]] = {}
        for level, frames in self.all_frames.items():
            for word in (word for line in (*frames.openings, *frames.endings) for word in self.reader.words(line)):
                levels.setdefault(word, set()).add(level)
        return levels

    def openings_in(self, text: str) -> Counter[int]:
        """How many openings of each level a text has; more than one means more than one answer."""
        counts = {
            level: sum(self.reader.times(text, one) for one in dict.fromkeys(frames.openings))
            for level, frames in self.all_frames.items()
        }
        return +Counter(counts)  # the plus drops levels with 0

    def tones(self, text: str, *sentences: str) -> Counter[int]:
        """How many words of a text outside these sentences occur in frames of one level only, by this level."""
        left = self.reader.without(text, *sentences)
        levels = (self.frame_words.get(word, ()) for word in self.reader.words(left))
        return Counter(level for own in levels if len(own) == 1 for level in own)

    def read_level(self, text: str, *sentences: str) -> int:
        """The level with most `tones` in a text, the lowest on a tie; 0 without any."""
        tones = self.tones(text, *sentences)
        return min(tones, key=lambda level: (-tones[level], level), default=0)


def _together(*parts: Mapping[str, list[str]]) -> Frames:
    return Frames(*([line for part in parts for line in part.get(name, ())] for name in Frames._fields))


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


@dataclass(frozen=True, eq=False)
class Judge:
    """A classifier of the level of an answer, trained on answers that no policy or reward model sees.

    Its training answers are openings and endings written only for it (the file `judge` of a bank), around facts of the
    training share. The last quarter of each list is held out for `examination`. An answer that it is not sure about
    gets level 0, so that neither gibberish nor an answer with two different tones counts as appropriate.
    """

    reader: Reader
    frames: Mapping[int, Mapping[str, Sequence[str]]]  # level, 0 for none, to its `openings` and `endings`
    facts: Sequence[str]  # the facts of the training share
    rounds: int  # number of training answers for each pair of opening and ending; two of three hold a fact

    def produced_levels(self, answers: Sequence[tuple[str, str]]) -> list[int]:
        """The level of each (answer, fact), 0 for none; the words of the fact do not count.

        If the texts before and after it, classified separately, have different levels, the answer has level 0.
        """
        parts = [self.reader.around(answer, fact) for answer, fact in answers]
        levels = self._levels([one for before, after in parts for one in (f"{before} {after}".strip(), before, after)])
        by_answer = zip(levels[::3], levels[1::3], levels[2::3], strict=True)
        return [0 if before and after and before != after else both for both, before, after in by_answer]

    def examination(self) -> float:
        """The accuracy of the judge on its held-out answers, 0 to 1."""
        texts, levels = self._answers(held_out=True)
        return sum(one == other for one, other in zip(self._levels(texts), levels, strict=True)) / len(levels)

    def _levels(self, texts: Sequence[str]) -> list[int]:
        """The level of each text, if the classifier is sure of it; otherwise, or for an empty text, 0."""
        classifier = self._classifier
        rows = zip(texts, classifier.predict_proba(texts), strict=True)
        return [int(classifier.classes_[row.argmax()]) if text and row.max() >= SURE else 0 for text, row in rows]

    @cached_property
    def _classifier(self) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        texts, levels = self._answers(held_out=False)
        words = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)
        return make_pipeline(words, LogisticRegression(C=30.0, max_iter=1000)).fit(texts, levels)

    def _answers(self, held_out: bool) -> tuple[list[str], list[int]]:
        facts = self.facts[:: 7 if held_out else 5]
        texts, levels = [], []
        for level, parts in self.frames.items():
            openings, endings = (self._part(parts[name], held_out) for name in ("openings", "endings"))
            lines = [pair for pair in product([*openings, ""], [*endings, ""]) if any(pair)]
            for number, (opening, ending) in enumerate(lines * self.rounds):
                # A step of 37 spreads neighbours over the facts, which are in the order of their families.
                fact = facts[number * 37 % len(facts)] if number % 3 else ""
                texts.append(self.reader.without(f"{opening} {fact} {ending}"))
                levels.append(level)
        return texts, levels

    @staticmethod
    def _part(lines: Sequence[str], held_out: bool) -> Sequence[str]:
        kept = len(lines) - len(lines) // 4
        return lines[kept:] if held_out else lines[:kept]
