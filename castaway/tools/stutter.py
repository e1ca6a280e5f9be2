"""Finds replies that stutter: `isises`, `it it`, `it is it is`."""

import re

AGAIN = re.compile(r"\b(\w+(?:\W+\w+){0,7})\W+\1\b")
"""One to eight words that stand twice in a row."""
WITHIN = re.compile(r"\b(?!rere)([^\W\d_]{2,})\1")
"""A word that begins with the same letters twice, unless that is the prefix of `reread`."""
DOUBLED = frozenset(["that", "had", "very", "really", "so", "no"])
"""Words that English says twice: all that he had had."""


def stutters(reply: str, prompt: str) -> bool:
    """Whether a reply repeats itself within a word or in words next to each other, as its prompt does not."""
    said, asked = (" ".join(re.findall(r"\w+|[.:?!]", text.lower())) for text in (reply, prompt))
    words = asked.split(" ")
    again = (one for one in AGAIN.finditer(said) if one[1] not in DOUBLED and one[0] not in asked)
    within = (one for one in re.findall(r"\w+", said) if WITHIN.match(one) and one not in words)
    return any(again) or any(within)
