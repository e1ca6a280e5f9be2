"""Arithmetic in typed lines: `7 times 8` is what the bank calls `the product of 7 and 8`; the fact is computed."""

import re
from collections.abc import Callable
from fractions import Fraction
from operator import add, mul, sub

from castaway.tools.strictbot.facts import COMPUTED, Fact
from castaway.tools.strictbot.wording import replaced

NUMBER = r"(-?\d+(?:\.\d+)?)"
TWO = f"{NUMBER} and {NUMBER}"
PHRASES: tuple[tuple[str, str, Callable[..., Fraction]], ...] = (
    (rf"{NUMBER} plus {NUMBER}|sum of {TWO}", "the sum of {} and {}", add),
    (rf"{NUMBER} minus {NUMBER}|difference of {TWO}", "the difference of {} and {}", sub),
    (rf"{NUMBER} (?:times|multiplied by) {NUMBER}|product of {TWO}", "the product of {} and {}", mul),
    (rf"{NUMBER} divided by {NUMBER}", "the quotient of {} and {}", Fraction.__truediv__),
    (rf"(?:double|twice)(?: of)? {NUMBER}", "the double of {}", lambda number: 2 * number),
    (rf"half(?: of)? {NUMBER}", "the half of {}", lambda number: number / 2),
    (rf"square of {NUMBER}|{NUMBER} squared", "the square of {}", lambda number: number * number),
    (rf"(?:larger|bigger|greater) of {TWO}", "the larger of {} and {}", max),
    (rf"(?:smaller|lower|lesser) of {TWO}", "the smaller of {} and {}", min),
    (rf"{NUMBER} (?:is )?(?:larger|bigger|greater|more) than {NUMBER}", "the larger of {0} and {1} is {0}", max),
    (rf"{NUMBER} (?:is )?(?:smaller|lower|less) than {NUMBER}", "the smaller of {0} and {1} is {0}", min),
)
"""What is typed, how the bank says it, and the value. A comparison is a claim whose value is its first number."""


def computed(clause: str) -> tuple[str, Fact] | None:
    """The clause in the bank's words, and the fact about it; None if it is about no arithmetic that is known here."""
    text = replaced(clause, "numbers")
    for pattern, phrase, value_of in PHRASES:
        match = re.search(rf"(?:\bthe )?(?<![\w.])(?:{pattern})(?![\w.])(?! (?:plus|minus|times|divided))", text, re.I)
        if not match:
            continue
        numbers = [one for one in match.groups() if one is not None]
        try:
            value = value_of(*map(Fraction, numbers))
        except ZeroDivisionError:
            return None
        said = phrase.format(*numbers)
        exact = value.denominator == 1 or Fraction(str(float(value))) != value
        fact = f"{said.partition(' is ')[0]} is {value if exact else float(value)}"
        return f"{text[: match.start()]}{said}{text[match.end() :]}", Fact(fact, COMPUTED, COMPUTED)
    return None
