"""The rows of computed topics: arithmetic, units, money, clock, calendar. Their sentences are in `tables/numbers`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product

from castaway.envs.strictbot.bank import drawn
from castaway.envs.strictbot.english.rows import Row

Values = Callable[..., Sequence[object]]
"""The right value for some numbers, then wrong ones that people come to."""

EACH = 18
"""Number of subjects of a computed topic."""
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NUMERALS = ((50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))
UNITS = {
    "hours_to_minutes": (60, (100, 24)),
    "minutes_to_seconds": (60, (100, 10)),
    "days_to_hours": (24, (12, 60)),
    "weeks_to_days": (7, (5, 10)),
    "years_to_months": (12, (10, 52)),
    "kilometres_to_metres": (1000, (100, 10_000)),
    "kilograms_to_grams": (1000, (100, 500)),
    "feet_to_inches": (12, (10, 3)),
    "gallons_to_quarts": (4, (2, 8)),
    "metres_to_centimetres": (100, (10, 1000)),
}
"""Topic to the number of small units in a large one, and the numbers that are taken for it."""


def number_rows() -> dict[str, tuple[Row, ...]]:
    """The rows of each computed topic, by name."""
    pairs = [(a, b) for a in range(12, 90) for b in range(6, 60) if a > b]
    table = [(a, b) for a in range(3, 16) for b in range(3, 13) if a > b]
    prices = [(price, share) for price in range(40, 400, 20) for share in (5, 10, 20, 25, 50)]
    hours = [(hour, later) for hour in range(6, 12) for later in range(3, 12) if hour + later > 12]
    days = list(product(range(7), (8, 9, 10, 11, 12, 15, 16, 20, 30)))
    found = {
        "addition": _rows(pairs, lambda a, b: (a + b, a + b + 10, a + b - 1, a + b + 2)),
        "subtraction": _rows(pairs, lambda a, b: (a - b, a - b + 10, a - b + 1, a - b + 2)),
        "multiplication": _rows(table, lambda a, b: (a * b, a * b + a, a * b - b, a * b + 2)),
        "division": _rows([(a * b, b) for a, b in table], lambda a, b: (a // b, a // b + 1, a // b - 1, a // b + 2)),
        "square": _rows([(n,) for n in range(4, 31)], lambda n: (n * n, 2 * n, n * n + n, n * n - 1)),
        "percentage": _rows(prices, lambda a, b: (a * b // 100, a - a * b // 100, a * b // 100 + 5, b)),
        "discount": _rows(
            [(a, b) for a, b in prices if b < 50],
            lambda a, b: (a - a * b // 100, a - b, a * b // 100, a - a * b // 100 + 5),
        ),
        "average": _rows(
            [(a, b) for a, b in pairs if (a + b) % 2 == 0 and a - b > 3],
            lambda a, b: ((a + b) // 2, a + b, (a + b) // 2 + 1, a - b),
        ),
        "area": _rows(table, lambda a, b: (a * b, 2 * (a + b), a + b, a * b + b)),
        "perimeter": _rows(table, lambda a, b: (2 * (a + b), a * b, a + b, 2 * a + b)),
        "change": _rows(
            [(note, price) for note in (20, 50, 100) for price in range(3, 98) if 3 < note - price < 60],
            lambda a, b: (a - b, a - b + 10, a - b - 1, a - b + 1),
        ),
        "distance": _rows(
            [(speed, time) for speed in range(30, 130, 10) for time in (2, 3, 4, 5)],
            lambda a, b: (a * b, a * b + a, a + b, a * b - 10),
        ),
        "fahrenheit": _rows(
            [(n,) for n in range(5, 96, 5)], lambda n: (n * 9 // 5 + 32, n + 32, n * 9 // 5, n * 9 // 5 + 22)
        ),
        "numeral": _rows([(n,) for n in range(4, 90)], lambda n: (n, n + 1, n + 10, n + 2), lambda n: (numeral(n),)),
        "clock": _rows(hours, lambda a, b: (a + b - 12, a + b - 11, a + b - 10)),
        "weekday": _rows(
            days,
            lambda day, later: [DAYS[(day + later + more) % 7] for more in (0, 1, 6, 3)],
            lambda day, later: (later, DAYS[day]),
        ),
        "birthday": _rows(
            [(born, year) for born in range(1950, 2015, 3) for year in (2030, 2040, 2050)],
            lambda a, b: (b - a, b - a + 1, b - a - 1, b - a + 10),
        ),
        "binary": _rows([(n,) for n in range(5, 32)], lambda n: (f"{n:b}", f"{n + 1:b}", f"{n + 2:b}", f"{n - 2:b}")),
    }
    for name, (factor, mistaken) in UNITS.items():
        found[name] = _rows([(n,) for n in range(2, 21)], lambda n, f=factor, m=mistaken: [n * one for one in (f, *m)])
    return found


def numeral(number: int) -> str:
    """A number below 90 as a Roman numeral."""
    text = ""
    for value, letters in NUMERALS:
        while number >= value:
            text, number = text + letters, number - value
    return text


def _rows(cases: Iterable[tuple[int, ...]], values: Values, shown: Values | None = None) -> tuple[Row, ...]:
    """Some of the cases, with right and wrong values; the subject is what `shown` gives, or the case itself."""
    chosen = sorted(cases, key=lambda case: (drawn(f"case {case}", 2**32), case))[:EACH]
    rows = []
    for case in chosen:
        value, *others = (str(one) for one in values(*case))
        subject = " | ".join(str(one) for one in (shown(*case) if shown else case))
        rows.append(Row(subject, value, tuple(one for one in dict.fromkeys(others) if one != value)))
    return tuple(rows)
