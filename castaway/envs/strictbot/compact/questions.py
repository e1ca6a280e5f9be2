"""The questions of the compact rendering, made from templates and fillers in the folder `bank/compact`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any
from zlib import crc32

from castaway.envs.strictbot.bank import Bank, drawn
from castaway.envs.strictbot.bank import read as read_bank
from castaway.envs.strictbot.compact.numbers import number_topics
from castaway.envs.strictbot.question import Question

MOST_SUBJECTS = 110
"""Largest number of subjects of a family, so that families with many fillers do not dominate."""


def read(name: str) -> Any:
    """Read a file of templates in the folder `bank/compact`."""
    return read_bank(f"compact/{name}")


@cache
def bank() -> Bank:
    """The whole bank."""
    frames = read("asking")
    found = [*_relations(), *_beliefs(), *_logic(), *_trivial()]
    questions = tuple(_framed(question, frames[question.form]) for question in found)
    return Bank(questions, {share: frozenset(families) for share, families in read("split").items()})


def _framed(question: Question, frames: Sequence[str]) -> Question:
    """The question in one of the frames, which its words select."""
    asked = frames[drawn(question.asked, len(frames))].format(question.asked)
    return Question(
        asked, question.fact, question.false, question.kind, question.form, question.family, question.subject
    )


def _some(rows: Sequence[Any]) -> list[Any]:
    """At most `MOST_SUBJECTS` of the rows, selected by their checksums: a stable choice in a mixed order."""
    return sorted(rows, key=lambda row: crc32(str(row).encode()))[:MOST_SUBJECTS]


def _known(value: str) -> str:
    """A value as a fact: the sentence that is shown and that an answer repeats."""
    return f"it is {value}"


def value_of(fact: str) -> str:
    """The value of a fact: the fact without `it is`."""
    return fact.removeprefix("it is ")


def _relations() -> Iterator[Question]:
    """Subjects with one right value: a wrong claim, a right claim, and an open question."""
    topics = dict(number_topics())
    for family, topic in read("tables").items():
        rows = [(str(subject), str(value)) for subject, value in topic["values"].items()]
        topics[family] = (topic["claim"], topic["open"], rows)
    for family, (claim, open_question, rows) in topics.items():
        for subject, value in _some(rows):
            other = _other(sorted({value for _, value in rows}), value, subject)
            fact, false = _known(value), _known(other)
            right, wrong = (claim.format(subject=subject, value=one) for one in (value, other))
            asked = open_question.format(subject=subject)
            yield Question(wrong, fact, false, "factual error", "check", family, subject)
            yield Question(right, fact, false, "good question", "check", family, subject)
            yield Question(asked, fact, false, "good question", "open", family, subject)


def _other(values: Sequence[str], value: str, subject: str) -> str:
    """A wrong value: that of another subject."""
    others = [other for other in values if other != value]
    return others[drawn(f"{subject} {value}", len(others))]


def _fillings(fill: Sequence[Sequence[Any]]) -> list[tuple[str, ...]]:
    """All combinations of fillers; a filler that is a list fills as many places as it has words."""
    rows = []
    for chosen in product(*fill):
        parts = [part if isinstance(part, list) else [part] for part in chosen]
        rows.append(tuple(str(word) for part in parts for word in part))
    return _some(rows)


def _beliefs() -> Iterator[Question]:
    """Common misconceptions, and the same sentences with the true value."""
    for family, topic in read("beliefs").items():
        cases = [tuple(map(str, case)) for case in topic.get("cases", [])]
        for row in _fillings(topic["fill"]) if "fill" in topic else []:
            cases.append(tuple(str(topic[name]).format(*row) for name in ("claim", "so", "believed")))
        for claim, so, believed in cases:
            fact, false = _known(so), _known(believed)
            yield Question(f"{claim} {believed}", fact, false, "misconception", "belief", family, claim)
            yield Question(f"{claim} {so}", fact, false, "good question", "belief", family, claim)


def _logic() -> Iterator[Question]:
    """Conclusions that do not follow and, if the topic has one, a similar one that does."""
    for family, topic in read("logic").items():
        for row in _fillings(topic["fill"]):
            subject, may = " ".join(row), topic["may"].format(*row)
            fact, false = _known(f"perhaps {may}"), _known("surely so")
            yield Question(topic["poor"].format(*row), fact, false, "poor logic", "conclusion", family, subject)
            if "sound" in topic:
                asked, follows = topic["sound"].format(*row), topic["follows"].format(*row)
                fact, false = _known(f"surely {follows}"), _known("perhaps not so")
                yield Question(asked, fact, false, "good question", "conclusion", family, subject)


def _trivial() -> Iterator[Question]:
    """Questions that contain their own answer."""
    for family, topic in read("trivial").items():
        rows, place = _fillings(topic["fill"]), topic["value"]
        values = sorted({row[place] for row in rows})
        for row in rows:
            asked, subject = topic["asked"].format(*row), " ".join(row)
            fact, false = _known(row[place]), _known(_other(values, row[place], subject))
            yield Question(asked, fact, false, "trivial", "open", family, subject)
