"""The judge: a classifier of the level of an answer, trained on answers that no policy or reward model sees.

Its training answers are openings and endings written only for it (the file `judge` of a bank), around facts of the
training share. The last quarter of each list is held out for `examination`. An answer that it is not sure about gets
level 0, so that neither gibberish nor an answer with two different tones counts as appropriate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from castaway.envs.strictbot.reading import Reader

SURE = 0.5
"""Smallest probability at which a level counts as produced."""


@dataclass(frozen=True, eq=False)
class Judge:
    """The judge of one rendering."""

    reader: Reader
    frames: Mapping[int, Mapping[str, Sequence[str]]]
    """Level, 0 for none, to its `openings` and `endings`."""
    facts: Sequence[str]
    """The facts of the training share."""
    rounds: int
    """Number of training answers for each pair of opening and ending; two of three hold a fact."""

    def produced_levels(self, answers: Sequence[tuple[str, str]]) -> list[int]:
        """The level of each (answer, fact), 0 for none.

        The words of the fact do not count. The texts before and after it are classified together and separately; if
        those two have different levels, the answer has level 0.
        """
        parts = [self.reader.around(answer, fact) for answer, fact in answers]
        levels = self._levels(
            [text for before, after in parts for text in (f"{before} {after}".strip(), before, after)]
        )
        found = zip(levels[::3], levels[1::3], levels[2::3], strict=True)
        return [0 if before and after and before != after else both for both, before, after in found]

    def examination(self) -> float:
        """The accuracy of the judge on its held-out answers, 0 to 1."""
        texts, levels = self._answers(held_out=True)
        found = self._levels(texts)
        return sum(one == other for one, other in zip(found, levels, strict=True)) / len(levels)

    def _levels(self, texts: Sequence[str]) -> list[int]:
        """The level of each text, if the classifier is sure of it; otherwise, or for an empty text, 0."""
        classifier = self._classifier
        rows = zip(texts, classifier.predict_proba(texts), strict=True)
        return [int(classifier.classes_[row.argmax()]) if text and row.max() >= SURE else 0 for text, row in rows]

    @cached_property
    def _classifier(self) -> Any:
        """A logistic regression on TF-IDF weights of words and word pairs; deterministic."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        texts, levels = self._answers(held_out=False)
        words = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)
        return make_pipeline(words, LogisticRegression(C=30.0, max_iter=1000)).fit(texts, levels)

    def _answers(self, held_out: bool) -> tuple[list[str], list[int]]:
        """The judge's answers and their levels: all openings with all endings, some without opening, ending or fact."""
        facts = self.facts[:: 7 if held_out else 5]
        texts, levels = [], []
        for level, parts in self.frames.items():
            openings, endings = (_part(parts[name], held_out) for name in ("openings", "endings"))
            lines = [pair for pair in product([*openings, ""], [*endings, ""]) if any(pair)]
            for number, (opening, ending) in enumerate(lines * self.rounds):
                # A step of 37 spreads neighbours over the facts, which are in the order of their families.
                fact = facts[number * 37 % len(facts)] if number % 3 else ""
                texts.append(self.reader.without(f"{opening} {fact} {ending}"))
                levels.append(level)
        return texts, levels


def _part(lines: Sequence[str], held_out: bool) -> list[str]:
    """The last quarter of the lines if `held_out`, otherwise the others."""
    kept = len(lines) - len(lines) // 4
    return list(lines[kept:] if held_out else lines[:kept])
