"""The words of the compact rendering: letters, digits and decimal points."""

from __future__ import annotations

import re

from castaway.envs.strictbot.reading import Reader

_WORD = re.compile(r"[a-z0-9.]*[a-z0-9]")


def words(text: str) -> list[str]:
    """The words and numbers of a text, in lower case."""
    return _WORD.findall(text.lower())


READER = Reader(words)
