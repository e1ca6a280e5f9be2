"""Topics with one right value for each subject: wrong claims, right claims, and open questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from castaway.envs.strictbot.bank import Share, drawn
from castaway.envs.strictbot.english.numbers import number_rows
from castaway.envs.strictbot.english.phrasing import framed, framed_after, pick, sentence, spelled
from castaway.envs.strictbot.english.rows import MOST_ROWS, Row, fields, lines, read, some
from castaway.envs.strictbot.question import Kind, Question

WORDINGS = 3
"""Number of ways in which each subject is asked about, for each kind of question."""
HELD = 3
"""For one of so many subjects there is a question that holds its own answer."""
FILES = ("geography", "science", "history", "life", "language", "everyday", "numbers")
"""The files of tables, in the folder `bank/english/tables`."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. In its templates `{0}`, `{1}` ... stand for the subject and `{v}` for the value."""

    fact: str
    """The clause that is the fact."""
    claims: tuple[str, ...]
    """Other clauses that say the same."""
    asks: tuple[str, ...]
    """Questions for the value."""
    rows: tuple[Row, ...]
    computed: bool = False
    """Whether the values are computed; the fact of such a topic is always told in the same words."""

    def facts(self) -> tuple[str, ...]:
        """The clauses that a fact is told in: none that begins with the value, which would get a capital."""
        others = () if self.computed else [one for one in self.claims if not one.startswith("{v}")]
        return (self.fact, *others)


def topics() -> dict[str, Topic]:
    """All topics: tables with lines `subject = value ; wrong value ; another wrong value`, and computed ones."""
    tables = {family: found for file in FILES for family, found in read(f"tables/{file}").items()}
    computed = number_rows()
    return {family: _topic(found, computed.get(family)) for family, found in tables.items()}


def _topic(found: Mapping[str, Any], computed: tuple[Row, ...] | None) -> Topic:
    rows = computed or _rows(found["rows"])
    return Topic(found["fact"], tuple(found["claims"]), tuple(found["asks"]), rows, computed is not None)


def _rows(block: str) -> tuple[Row, ...]:
    rows = []
    for line in lines(block):
        (subject,), (value, *others) = fields(line)
        rows.append(Row(subject, value, tuple(others)))
    return tuple(rows)


def filled(template: str, row: Row, value: str) -> str:
    """A template with a subject and a value in it."""
    return template.format(*row.subject.split(" | "), v=value)


@dataclass(frozen=True, slots=True)
class Asker:
    """Makes the questions of a topic."""

    frames: Mapping[str, list[str]]
    """Form to the frames of its questions; and `context`, the frames of what stands before a question."""
    share_of: Callable[[str, str], Share]
    """The share of a family and subject."""

    def questions(self, family: str, topic: Topic) -> Iterator[Question]:
        """All questions of a topic."""
        rows = some(topic.rows, MOST_ROWS)
        for row in rows:
            wrong = row.others or sorted({one.value for one in rows} - {row.value})
            # What is mentioned beside a question is of the same share, so that no share tells the facts of another.
            beside = [
                one
                for one in rows
                if one != row and self.share_of(family, one.subject) == self.share_of(family, row.subject)
            ]
            key = f"{family} {row.subject}"
            for number in range(WORDINGS):
                other = pick(wrong, row.subject, number)
                told = pick(topic.facts(), f"{key} told", number)
                fact, false = (sentence(filled(told, row, value)) for value in (row.value, other))
                kinds: tuple[tuple[Kind, str], ...] = (("factual error", other), ("good question", row.value))
                for kind, value in kinds:
                    asked, claim = self._claim(topic, row, value, key, number)
                    yield Question(asked, fact, false, kind, "check", family, row.subject, number, claim)
                last = number == WORDINGS - 1
                context = pick(beside, key) if beside and last else None
                asked = self._asked(topic, row, context, key, number)
                yield Question(asked, fact, false, "good question", "open", family, row.subject, number)
                if last and drawn(f"{key} held", HELD) == 0:
                    asked = self._asked(topic, row, row, key, number)
                    yield Question(asked, fact, false, "trivial", "open", family, row.subject)

    def _claim(self, topic: Topic, row: Row, value: str, key: str, number: int) -> tuple[str, str]:
        """A question whether the subject has this value, and its claim."""
        key = f"{key} {value}"
        template = pick((topic.fact, *topic.claims), key, number)
        clause = filled(template, row, value if "=" in template else spelled(value, f"{key} {number}"))
        return framed(pick(self.frames["check"], f"{key} check", number), clause, f"{key} {number}"), clause

    def _asked(self, topic: Topic, row: Row, context: Row | None, key: str, number: int) -> str:
        """An open question, after what is known about another subject or, if it answers itself, about its own."""
        asked = filled(pick(topic.asks, key, number), row, "")
        if context is None:
            return framed(pick(self.frames["open"], f"{key} open", number), asked, f"{key} {number}")
        key = f"{key} after {context.subject}"
        known = filled(pick((topic.fact, *topic.claims), key), context, context.value)
        return framed_after(known, pick(self.frames["context"], key), asked, key)
