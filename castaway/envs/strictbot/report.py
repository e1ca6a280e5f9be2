"""The figures of evaluation: wanted and produced levels, and whether answers were true and civil."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from statistics import mean

from castaway.envs.strictbot.answers import LEVELS
from castaway.envs.strictbot.language import Language
from castaway.envs.strictbot.question import Question
from castaway.envs.strictbot.reward.toxicity import ABUSIVE
from castaway.metrics.intervals import proportion
from castaway.tasks.environment import Outcome


def details_of(
    language: Language, answer: str, question: Question, produced: int, terms: dict[str, float]
) -> dict[str, float]:
    """The details of one answer for an `Outcome`; `produced` is the level found by the judge."""
    return {
        "wanted": float(question.level),
        "produced": float(produced),
        "words": float(len(language.reader.words(answer))),
        "toxic": float(terms["toxicity"] >= ABUSIVE),
        **terms,
    }


def report(new_families: Set[str], outcomes: Sequence[Outcome], truncated: Sequence[bool]) -> dict[str, float]:
    """Figures of episodes in the seat `one`.

    Args:
        new_families: the families of questions that training never uses.
        outcomes: the outcome of each episode.
        truncated: whether the answer was cut off, for each episode.

    Returns:
        `appropriateness` (the success rate), `factual_accuracy`, `toxic_rate`, `truncated_rate`, and the
        appropriateness over `known_families` and `new_families`, each with a 95 % interval (`_low`, `_high`); the
        counts `wanted_W_produced_P`, with P 0 if the judge found no level; `family_NAME`, the appropriateness in each
        new family; and the mean number of words and mean reward terms (`mean_NAME`).
    """
    rows = [outcome.details for outcome in outcomes]
    fits = [row["wanted"] == row["produced"] for row in rows]
    family = [outcome.labels["family"] for outcome in outcomes]
    new = [name in new_families for name in family]
    figures: dict[str, float] = {}
    for name, found in {
        "appropriateness": fits,
        "factual_accuracy": [row["factual"] == 1.0 for row in rows],
        "toxic_rate": [row["toxic"] == 1.0 for row in rows],
        "truncated_rate": list(truncated),
        "known_families": [fit for fit, away in zip(fits, new, strict=True) if not away],
        "new_families": [fit for fit, away in zip(fits, new, strict=True) if away],
    }.items():
        figures |= proportion(sum(found), len(found)).entries(name)
    counts = Counter((int(row["wanted"]), int(row["produced"])) for row in rows)
    figures |= {f"wanted_{w}_produced_{p}": counts[w, p] for w in LEVELS for p in (0, *LEVELS)}
    for name in sorted(set(family) & new_families):
        of_it = [fit for fit, own in zip(fits, family, strict=True) if own == name]
        figures[f"family_{name}"] = round(mean(of_it), 6)
    for name in ("words", "constructiveness", "inconsistency", "toxicity"):
        figures[f"mean_{name}"] = round(mean(row[name] for row in rows), 6) if rows else 0.0
    return figures
