"""Computed topics of the question bank: arithmetic, units, clock and alphabet, as subjects with one right value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

Row = tuple[str, str]
Topic = tuple[str, str, list[Row]]
"""Template of a claim, template of an open question (as in bank/tables.yaml), and rows of subject and value."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
UNITS = {
    "minutes": ("hours", 60, range(2, 25)),
    "seconds": ("minutes", 60, range(2, 31)),
    "hours": ("days", 24, range(2, 31)),
    "days": ("weeks", 7, range(2, 41)),
    "months": ("years", 12, range(2, 41)),
    "metres": ("kilometres", 1000, range(2, 41)),
    "centimetres": ("metres", 100, range(2, 41)),
    "grams": ("kilos", 1000, range(2, 41)),
    "cents": ("euros", 100, range(2, 41)),
    "eggs": ("dozens", 12, range(2, 31)),
    "inches": ("feet", 12, range(2, 31)),
}
"""Small unit to the large unit, the number of small units in one, and the counts of large units to ask about."""


def number_topics() -> dict[str, Topic]:
    """All computed topics, by name."""
    # The remainder modulo 11 keeps an eleventh of the pairs, well mixed.
    small = [(a, b) for a in range(2, 50) for b in range(2, 50) if a > b and (a * 7 + b * 3) % 11 == 0]
    table = [(a, b) for a in range(3, 13) for b in range(2, a)]
    one = [(n, 0) for n in range(3, 90)]
    topics = {
        "sum": _topic("sum of", "{0} and {1}", small, lambda a, b: a + b),
        "difference": _topic("difference of", "{0} and {1}", small, lambda a, b: a - b),
        "product": _topic("product of", "{0} and {1}", table, lambda a, b: a * b),
        "remainder": _topic("remainder of", "{0} by {1}", [(a, b) for a, b in small if b < 13], lambda a, b: a % b),
        "larger": _topic("larger of", "{0} and {1}", [_turned(pair) for pair in small], max),
        "smaller": _topic("smaller of", "{0} and {1}", [_turned(pair) for pair in small], min),
        "double": _topic("double of", "{0}", one, lambda n, _: 2 * n),
        "triple": _topic("triple of", "{0}", one[:60], lambda n, _: 3 * n),
        "half": _topic("half of", "{0}", [(2 * n, 0) for n, _ in one], lambda n, _: n // 2),
        "square": _topic("square of", "{0}", one[:40], lambda n, _: n * n),
        "number_after": _topic("number after", "{0}", one, lambda n, _: n + 1),
        "number_before": _topic("number before", "{0}", one, lambda n, _: n - 1),
    }
    for small_unit, (large_unit, factor, counts) in UNITS.items():
        rows = [(f"{n} {large_unit}", str(factor * n)) for n in counts]
        claim = f"the number of {small_unit} in {{subject}} is {{value}}"
        topics[small_unit] = (claim, f"how many {small_unit} are in {{subject}}", rows)
    clock = [
        (f"{n} hours past {hour}", str((hour + n - 1) % 12 + 1)) for hour in range(2, 13) for n in range(2, hour + 1)
    ]
    topics["clock"] = ("the hour of {subject} is {value}", "which hour is {subject} on a clock of 12 hours", clock)
    after = list(pairwise(LETTERS))
    topics["letter_after"] = ("the letter after {subject} is {value}", "which letter comes after {subject}", after)
    return topics


def _topic(phrase: str, subject: str, cases: Iterable[tuple[int, int]], value: Callable[[int, int], int]) -> Topic:
    rows = [(subject.format(a, b), str(value(a, b))) for a, b in cases]
    return f"the {phrase} {{subject}} is {{value}}", f"what is the {phrase} {{subject}}", rows


def _turned(pair: tuple[int, int]) -> tuple[int, int]:
    """The pair or its reverse, so that the larger number does not always come first."""
    return pair if sum(pair) % 2 else pair[::-1]
