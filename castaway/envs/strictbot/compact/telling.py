"""Derives the form and kind of a question from its words and the fact, without the bank.

So synthetic questions, and those that a teacher writes, have a kind too.
"""

from __future__ import annotations

from functools import cache

from castaway.envs.strictbot.bank import drawn
from castaway.envs.strictbot.compact.questions import bank, read, value_of
from castaway.envs.strictbot.question import Form, Kind, Question

MADE_UP = "made up"
"""The family of questions that are not in the bank."""


@cache
def _frames() -> tuple[tuple[Form, str, str], ...]:
    """Each frame as form, words before and words after the core of a question; the longest first."""
    found = [(form, *frame.split("{0}")) for form, frames in read("asking").items() for frame in frames]
    return tuple(sorted(found, key=lambda one: -len(one[1] + one[2])))


def framed(asked: str) -> tuple[Form, str, str]:
    """The frame of a question: its form, and the words before and after its core.

    Open questions and conclusions can have the same frame; `form_of` distinguishes them by the fact.
    """
    for form, before, after in _frames():
        if asked.startswith(before) and asked.endswith(after):
            return form, before, after
    raise AssertionError("every question stands in the frame that has no words")


def core_of(asked: str) -> str:
    """The question without the words of its frame."""
    _, before, after = framed(asked)
    return asked[len(before) : len(asked) - len(after)]


def form_of(asked: str, fact: str) -> Form:
    """The form of a question."""
    form = framed(asked)[0]
    if form in ("check", "belief"):
        return form
    return "conclusion" if value_of(fact).split(" ")[0] in ("perhaps", "surely") else "open"


def named(asked: str, fact: str) -> bool:
    """Whether a question names the value of the fact: a claim or belief at its end, any other question anywhere."""
    core, value = f" {core_of(asked)} ", f" {value_of(fact)} "
    if form_of(asked, fact) in ("check", "belief"):
        return core.endswith(value) and not core.endswith(f" not{value}")
    return value in core


def among_others(asked: str, fact: str) -> bool:
    """Whether a question names the value of the fact beside another one, as `the smaller of 9 and 4` does."""
    core, value = f" {core_of(asked)} ", f" {value_of(fact)} "
    return f"{value}and " in core or f" and{value}" in core


def by_rule(asked: str, fact: str) -> Kind:
    """The kind of a question: for a conclusion by the fact (`perhaps`), otherwise by whether it names the fact.

    An open question that names it among others has to be answered all the same.
    """
    wrong: dict[Form, Kind] = {"check": "factual error", "belief": "misconception", "open": "good question"}
    form = form_of(asked, fact)
    if form == "conclusion":
        return "poor logic" if value_of(fact).startswith("perhaps") else "good question"
    right: Kind = "trivial" if form == "open" and not among_others(asked, fact) else "good question"
    return right if named(asked, fact) else wrong[form]


def question_of(asked: str, fact: str) -> Question:
    """The question with these texts: that of the bank, or a synthetic one with derived kind and false statement."""
    if bank().holds(asked, fact):
        return bank().find(asked, fact)
    core, kind, size = core_of(asked), by_rule(asked, fact), len(value_of(fact).split(" "))
    words = [word for word in bank().vocabulary if word not in fact.split(" ")]
    claimed = core.split(" ")[-size - 1 if core.endswith(f" not {value_of(fact)}") else -size :]
    if kind not in ("factual error", "misconception"):
        claimed = [words[drawn(f"{asked} {place}", len(words))] for place in range(size)]
    return Question(asked, fact, f"it is {' '.join(claimed)}", kind, form_of(asked, fact), MADE_UP, asked)
