"""The judge: a classifier of the level of an answer, trained on answers that no policy or reward model sees.

Its training answers are openings and endings written only for it (bank/judge.yaml), around facts of the training share.
The last quarter of each list is held out for `examination`. An answer that it is not sure about gets level 0, so that
neither gibberish nor an answer with two different tones counts as appropriate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

from castaway.envs.strictbot.answers import without, words
from castaway.envs.strictbot.bank import questions, read, share_of

SURE = 0.5
"""Smallest probability at which a level counts as produced."""
FACTS_EACH = 5
"""Number of training answers for each pair of opening and ending; two of three hold a fact."""


def produced_levels(answers: Sequence[tuple[str, str]]) -> list[int]:
    """The level of each (answer, fact), 0 for none.

    The words of the fact do not count. The texts before and after it are classified together and separately; if those
    two have different levels, the answer has level 0.
    """
    parts = [_around(answer, fact) for answer, fact in answers]
    levels = _levels([text for before, after in parts for text in (f"{before} {after}".strip(), before, after)])
    found = zip(levels[::3], levels[1::3], levels[2::3], strict=True)
    return [0 if before and after and before != after else both for both, before, after in found]


def _around(answer: str, fact: str) -> tuple[str, str]:
    """The words before and after the fact; if the answer does not hold the fact, all words are before it."""
    before, _, after = f" {' '.join(words(answer))} ".partition(f" {' '.join(words(fact))} ")
    return before.strip(), without(after, fact)


def _levels(texts: Sequence[str]) -> list[int]:
    """The level of each text, if the classifier is sure of it; otherwise, or for an empty text, 0."""
    classifier = _classifier()
    rows = zip(texts, classifier.predict_proba(texts), strict=True)
    return [int(classifier.classes_[row.argmax()]) if text and row.max() >= SURE else 0 for text, row in rows]


def examination() -> float:
    """The accuracy of the judge on its held-out answers, 0 to 1."""
    texts, levels = _answers(held_out=True)
    found = _levels(texts)
    return sum(one == other for one, other in zip(found, levels, strict=True)) / len(levels)


@cache
def _classifier() -> Any:
    """A logistic regression on TF-IDF weights of words and word pairs; deterministic."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts, levels = _answers(held_out=False)
    words = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)
    return make_pipeline(words, LogisticRegression(C=30.0, max_iter=1000)).fit(texts, levels)


def _answers(held_out: bool) -> tuple[list[str], list[int]]:
    """The judge's answers and their levels: all openings with all endings, some without opening, ending or fact."""
    facts = [question.fact for question in questions() if share_of(question) == "train"][:: 7 if held_out else 5]
    texts, levels = [], []
    for level, parts in read("judge").items():
        openings, endings = (_part(parts[name], held_out) for name in ("openings", "endings"))
        lines = [(opening, ending) for opening, ending in product([*openings, ""], [*endings, ""]) if opening or ending]
        for number, (opening, ending) in enumerate(lines * FACTS_EACH):
            # A step of 37 spreads neighbours over the facts, which are in the order of their families.
            fact = facts[number * 37 % len(facts)] if number % 3 else ""
            texts.append(without(f"{opening} {fact} {ending}"))
            levels.append(level)
    return texts, levels


def _part(lines: Sequence[str], held_out: bool) -> list[str]:
    """The last quarter of the lines if `held_out`, otherwise the others."""
    kept = len(lines) - len(lines) // 4
    return list(lines[kept:] if held_out else lines[:kept])
