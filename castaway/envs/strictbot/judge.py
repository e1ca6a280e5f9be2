"""The judge of the produced level: a classifier that learned from other answers than any policy or reward model saw.

Its openings and endings (bank/judge.yaml) are written for it alone, around facts of the training share; the last
quarter of each list is kept from it, for `examination`. What it is not sure about has level 0: neither gibberish nor an
answer of two minds is appropriate to anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

from castaway.envs.strictbot.answers import without, words
from castaway.envs.strictbot.bank import questions, read, share_of

SURE = 0.5
"""Least probability of a level that counts as produced."""
FACTS_EACH = 5
"""Times that each opening is learned with each ending, around a fact or none."""


def produced_levels(answers: Sequence[tuple[str, str]]) -> list[int]:
    """The level of each (answer, fact), 0 for none.

    The fact's own words do not count. What stands before it and what stands after it are read together and by
    themselves: where they are of different levels, the answer has none.
    """
    parts = [_around(answer, fact) for answer, fact in answers]
    levels = _levels([text for before, after in parts for text in (f"{before} {after}".strip(), before, after)])
    found = zip(levels[::3], levels[1::3], levels[2::3], strict=True)
    return [0 if before and after and before != after else both for both, before, after in found]


def _around(answer: str, fact: str) -> tuple[str, str]:
    """The words before the fact and those after it; without the fact all are before it."""
    before, _, after = f" {' '.join(words(answer))} ".partition(f" {' '.join(words(fact))} ")
    return before.strip(), without(after, fact)


def _levels(texts: Sequence[str]) -> list[int]:
    """The level that the classifier is sure of; an empty text has no tone."""
    classifier = _classifier()
    rows = zip(texts, classifier.predict_proba(texts), strict=True)
    return [int(classifier.classes_[row.argmax()]) if text and row.max() >= SURE else 0 for text, row in rows]


def examination() -> float:
    """Share of the judge's own held-out answers whose level it finds."""
    texts, levels = _answers(held_out=True)
    found = _levels(texts)
    return sum(one == other for one, other in zip(found, levels, strict=True)) / len(levels)


@cache
def _classifier() -> Any:
    """Words and pairs of words, weighed by a logistic regression; the same on every run."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts, levels = _answers(held_out=False)
    words = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)
    return make_pipeline(words, LogisticRegression(C=30.0, max_iter=1000)).fit(texts, levels)


def _answers(held_out: bool) -> tuple[list[str], list[int]]:
    """The judge's answers and their levels: each opening with each ending or none, around facts in turn, or none."""
    facts = [question.fact for question in questions() if share_of(question) == "train"][:: 7 if held_out else 5]
    texts, levels = [], []
    for level, parts in read("judge").items():
        openings, endings = (_part(parts[name], held_out) for name in ("openings", "endings"))
        lines = [(opening, ending) for opening, ending in product([*openings, ""], [*endings, ""]) if opening or ending]
        for number, (opening, ending) in enumerate(lines * FACTS_EACH):
            fact = facts[number * 37 % len(facts)] if number % 3 else ""
            texts.append(without(f"{opening} {fact} {ending}"))
            levels.append(level)
    return texts, levels


def _part(lines: Sequence[str], held_out: bool) -> list[str]:
    """The last quarter is kept for the examination."""
    kept = len(lines) - len(lines) // 4
    return list(lines[kept:] if held_out else lines[:kept])
