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

from castaway.envs.strictbot.answers import without
from castaway.envs.strictbot.bank import questions, read, share_of

SURE = 0.55
"""Least probability of a level that counts as produced."""


def produced_levels(answers: Sequence[tuple[str, str]]) -> list[int]:
    """The level of each (answer, fact), 0 for none; the fact's own words do not count."""
    around = [without(answer, fact) for answer, fact in answers]
    # Where nothing stands around the fact there is no tone to read.
    probabilities = _classifier().predict_proba(around)
    return [
        int(row.argmax()) + 1 if words and row.max() >= SURE else 0
        for words, row in zip(around, probabilities, strict=True)
    ]


def examination() -> float:
    """Share of the judge's own held-out answers whose level it finds."""
    texts, levels = _answers(held_out=True)
    found = produced_levels([(text, "") for text in texts])
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
        for number, (opening, ending) in enumerate(product([*openings, ""], [*endings, ""])):
            if opening or ending:
                fact = facts[number * 37 % len(facts)] if number % 3 else ""
                texts.append(without(f"{opening} {fact} {ending}"))
                levels.append(level)
    return texts, levels


def _part(lines: Sequence[str], held_out: bool) -> list[str]:
    """The last quarter is kept for the examination."""
    kept = len(lines) - len(lines) // 4
    return list(lines[kept:] if held_out else lines[:kept])
