"""The words of English text, so that equal sentences are found whatever their case, punctuation and spacing."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from castaway.envs.strictbot.reading import Reader

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_][^\W_]*")
"""A number, or a word that may hold digits: `100km` is two words, `CO2` is one."""
_CHANGES = (
    (re.compile(r"(?<=\w)['\u2019\u02bc](?=\w)"), ""),  # don't: one word, with any apostrophe
    (re.compile(r"(?<=\d),(?=\d{3}(?!\d))"), ""),  # 1,000: one number
    (re.compile(r"(?<![\w.)])[-\u2212\u2013](?=\d)"), "minus "),  # -40, but not 10-20
    (re.compile(r"\u00b0\s*c\b"), " degrees celsius "),
    (re.compile(r"\u00b0\s*f\b"), " degrees fahrenheit "),
    (re.compile(r"\u00b0"), " degrees "),
    (re.compile(r"%|\bper cent\b"), " percent "),
)
"""What is written in several ways, in lower case, and the form that is compared."""


def words(text: str) -> list[str]:
    """The words and numbers of a text, in lower case; `100 °C` is the same as `100 degrees Celsius`."""
    return list(_words(text))


@lru_cache(maxsize=65536)
def _words(text: str) -> tuple[str, ...]:
    plain = unicodedata.normalize("NFKC", text).casefold()
    for pattern, form in _CHANGES:
        plain = pattern.sub(form, plain)
    return tuple(_WORD.findall(plain))


READER = Reader(words)
