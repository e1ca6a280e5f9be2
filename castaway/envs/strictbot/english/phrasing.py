"""Puts clauses into sentences and questions, in as many ways as people do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from castaway.envs.strictbot.bank import drawn
from castaway.envs.strictbot.english.rows import read

Item = TypeVar("Item")

SMALL = "zero one two three four five six seven eight nine ten eleven twelve"
TENS = "ten twenty thirty forty fifty sixty seventy eighty ninety"
NUMBERS = {
    **{str(number): word for number, word in enumerate(SMALL.split())},
    **{str(10 * number): word for number, word in enumerate(TENS.split(), start=1)},
}
"""Numbers that are also written as words, with the word."""
SPELLED = 3
"""In one of so many claims a number is written as a word, if it has one."""
_ARTICLE = re.compile(r"(\ba|(?:^|(?<=[.?!] ))A) (?=[aeiou]|8|11\b|18\b)(?!one\b|uni|use|euro|ukulele)")
_STOPS = re.compile(r"(?<=[A-Za-z])\.\.(?!\.)")
WRAPPED = 4
"""One of so many questions has other words before or after it."""
LONGEST = 150
"""Most characters of a question that gets further words."""
CARELESS = 3
"""One of so many questions is typed carelessly."""
SHORT = {
    **{"you": "u", "your": "ur", "are": "r", "please": "pls", "people": "ppl", "thanks": "thx", "i am": "im"},
    **{"because": "cuz", "what is": "whats", "that is": "thats", "it is": "its", "do not": "dont", "is not": "isnt"},
    **{"cannot": "cant", "going to": "gonna", "want to": "wanna", "really": "rly", "something": "smth", "and": "n"},
}
"""What careless people type instead, in every second of their questions."""
LONG_WORD = 5
"""Letters of a word in which a slip is still understood."""


def capital(text: str) -> str:
    """The text with a capital at the beginning."""
    return f"{text[:1].upper()}{text[1:]}"


def small(text: str) -> str:
    """The text without a capital at the beginning."""
    return f"{text[:1].lower()}{text[1:]}"


def mended(text: str) -> str:
    """The text with `an` where a template has `a` before a vowel or `8`, and without a second full stop after one."""
    return _STOPS.sub(".", _ARTICLE.sub(r"\1n ", text))


def sentence(clause: str) -> str:
    """A clause as a sentence."""
    return mended(f"{capital(clause)}.")


def pick(found: Sequence[Item], key: str, number: int = 0) -> Item:
    """One of several, selected by a text; another one for each of the first numbers."""
    return found[(drawn(key, len(found)) + number) % len(found)]


def spelled(value: str, key: str) -> str:
    """A value as it stands in a claim: some numbers as words."""
    return NUMBERS[value] if value in NUMBERS and drawn(f"{key} spelled", SPELLED) == 0 else value


def framed(frame: str, text: str, key: str) -> str:
    """A question: a clause or question in a frame, sometimes with words around it, sometimes typed carelessly.

    A frame has one place: `{c}` for a clause as it is, `{C}` for one with a capital, `{q}` and `{Q}` for a question.
    """
    asked = wrapped(mended(frame.format(c=text, C=capital(text), q=small(text), Q=capital(text))), key)
    return careless(asked) if drawn(f"{key} typed", CARELESS) == 0 else asked


def framed_after(known: str, frame: str, asked: str, key: str) -> str:
    """A question in a frame that first says what is known: `{k}` for the clause as it is, `{K}` for a sentence."""
    return framed(frame.replace("{k}", known).replace("{K}", sentence(known)), asked, key)


def wrapped(text: str, key: str) -> str:
    """The text, in one of `WRAPPED` cases with what people type before or after what they ask."""
    if drawn(f"{key} wrapped", WRAPPED) or len(text) > LONGEST:
        return text
    before, after = _around()
    return f"{pick(before, key)} {text}" if drawn(f"{key} before", 2) else f"{text} {pick(after, key)}"


@cache
def _around() -> tuple[list[str], list[str]]:
    frames = read("frames")
    return frames["before"], frames["after"]


def careless(text: str) -> str:
    """The text as people type it in a hurry: without capitals and most of its punctuation, perhaps with slips."""
    typed = re.sub(r"[,'\u2019\"]", "", text.lower()).rstrip(".?! ")
    if drawn(f"{text} short", 2) == 0:
        typed = re.sub(rf"\b({'|'.join(SHORT)})\b", lambda found: SHORT[found[0]], typed)
    return misspelled(typed) if drawn(f"{text} misspelled", 2) == 0 else typed


def misspelled(text: str) -> str:
    """The text with a slip in one of its longer words: two letters exchanged, or one left out or typed twice."""
    words = list(re.finditer(rf"\b[a-z]{{{LONG_WORD},}}\b", text))
    if not words:
        return text
    found = pick(words, f"{text} word")
    word, place = found[0], 1 + drawn(f"{text} place", len(found[0]) - 3)
    one, other = word[place], word[place + 1]
    slip = pick([other + one, other, one + one + other], f"{text} slip")
    return f"{text[: found.start() + place]}{slip}{text[found.start() + place + 2 :]}"
