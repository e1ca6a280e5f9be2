"""The question bank: templates and fillers become questions, split by family and by subject.

Task ids choose questions in turn, so that every kind comes up as often as it should and many ids give as many different
questions. Which share of the bank an id draws from depends on its range:

- `held_out`: ids from `HELD_OUT_START`;
- `validation`: the ids that the dataset stage makes its held-out pairs from, and those from 900,000,000, for tuning;
- `train`: all others.

No question of one share, nor any about the same subject of the same family, is in another; and some families are in
one share alone (bank/split.yaml).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Literal
from zlib import crc32

from ruamel.yaml import YAML

from castaway.envs.base import is_held_out
from castaway.envs.strictbot.numbers import Row, number_topics
from castaway.envs.strictbot.question import Form, Kind, Question

Share = Literal["train", "validation", "held_out"]

FOLDER = Path(__file__).parent / "bank"
VALIDATION_IDS = (range(400_000_000, 500_000_000), range(900_000_000, 1_000_000_000))
MOST_SUBJECTS = 110
"""Of a family: those that combine many fillers must not drown the others."""
ORDER: tuple[tuple[Form, Kind], ...] = (
    ("check", "factual error"),
    ("belief", "misconception"),
    ("conclusion", "poor logic"),
    ("open", "trivial"),
    ("check", "good question"),
    ("belief", "good question"),
    ("check", "factual error"),
    ("belief", "misconception"),
    ("conclusion", "poor logic"),
    ("open", "trivial"),
    ("conclusion", "good question"),
    ("open", "good question"),
)
"""In turn: a third for each level, and of each form a third good questions, so that the form tells nobody the level."""


def read(name: str) -> Any:
    """A file of templates."""
    return YAML(typ="safe", pure=True).load((FOLDER / f"{name}.yaml").read_text("utf-8"))


def drawn(text: str, count: int) -> int:
    """A number below `count` that the text decides, the same on every machine."""
    return crc32(text.encode()) % count


# Questions, made of templates ----------------------------------------------------------------------------------------


@cache
def questions() -> tuple[Question, ...]:
    """The whole bank."""
    frames = read("asking")
    found = [*_relations(), *_beliefs(), *_logic(), *_trivial()]
    return tuple(_framed(question, frames[question.form]) for question in found)


def _framed(question: Question, frames: Sequence[str]) -> Question:
    """The question in the one frame that its own words choose."""
    asked = frames[drawn(question.asked, len(frames))].format(question.asked)
    return Question(
        asked, question.fact, question.false, question.kind, question.form, question.family, question.subject
    )


def _some(rows: Sequence[Any]) -> list[Any]:
    """At most `MOST_SUBJECTS` of them."""
    return sorted(rows, key=lambda row: crc32(str(row).encode()))[:MOST_SUBJECTS]


def _relations() -> Iterator[Question]:
    """Subjects with one right value: claimed wrongly, claimed rightly, and asked for."""
    topics = dict(number_topics())
    for family, topic in read("tables").items():
        rows = [(str(subject), str(value)) for subject, value in topic["values"].items()]
        topics[family] = (topic["fact"], topic["open"], rows)
    for family, (fact, open_question, rows) in topics.items():
        for subject, value in _some(rows):
            so = fact.format(subject=subject, value=value)
            not_so = fact.format(subject=subject, value=_other(rows, subject, value))
            yield Question(not_so, so, not_so, "factual error", "check", family, subject)
            yield Question(so, so, not_so, "good question", "check", family, subject)
            yield Question(open_question.format(subject=subject), so, not_so, "good question", "open", family, subject)


def _other(rows: Sequence[Row], subject: str, value: str) -> str:
    """A wrong value: another subject's."""
    values = sorted({other for _, other in rows} - {value})
    return values[drawn(f"{subject} {value}", len(values))]


def _fillings(fill: Sequence[Sequence[Any]]) -> list[tuple[str, ...]]:
    """Every combination; a filler that is a list puts its words in one after the other."""
    rows = []
    for chosen in product(*fill):
        parts = [part if isinstance(part, list) else [part] for part in chosen]
        rows.append(tuple(str(word) for part in parts for word in part))
    return _some(rows)


def _beliefs() -> Iterator[Question]:
    """What many believe, and the same with what is so in its place."""
    for family, topic in read("beliefs").items():
        if "pairs" in topic:
            pairs = [(so, believed, so) for so, believed in topic["pairs"]]
        else:
            rows = _fillings(topic["fill"])
            pairs = [(topic["so"].format(*row), topic["believed"].format(*row), " ".join(row)) for row in rows]
        for so, believed, subject in pairs:
            yield Question(believed, so, believed, "misconception", "belief", family, subject)
            yield Question(so, so, believed, "good question", "belief", family, subject)


def _logic() -> Iterator[Question]:
    """Conclusions that do not follow, and where there is one, the one from like words that does."""
    for family, topic in read("logic").items():
        for row in _fillings(topic["fill"]):
            poor, may, must = (topic[name].format(*row) for name in ("poor", "may", "must"))
            yield Question(poor, may, must, "poor logic", "conclusion", family, " ".join(row))
            if "sound" in topic:
                sound, follows, denied = (topic[name].format(*row) for name in ("sound", "follows", "denied"))
                yield Question(sound, follows, denied, "good question", "conclusion", family, " ".join(row))


def _trivial() -> Iterator[Question]:
    """Questions that hold their own answer; a false answer has another filler at its end."""
    for family, topic in read("trivial").items():
        rows = _fillings(topic["fill"])
        values = sorted({row[topic["value"]] for row in rows})
        for row in rows:
            value = row[topic["value"]]
            others = [other for other in values if other != value]
            so = topic["fact"].format(*row)
            wrong = others[drawn(so, len(others))]
            not_so = wrong.join(so.rsplit(value, 1))
            yield Question(topic["asked"].format(*row), so, not_so, "trivial", "open", family, " ".join(row))


# The split, and what an id draws -------------------------------------------------------------------------------------


def share_of(question: Question) -> Share:
    """The share of the bank that a question belongs to."""
    for share, families in _reserved().items():
        if question.family in families:
            return share
    place = drawn(f"{question.family}: {question.subject}", 100)
    return "held_out" if place < 22 else "validation" if place < 32 else "train"


@cache
def _reserved() -> dict[Share, frozenset[str]]:
    return {share: frozenset(families) for share, families in read("split").items()}


def reserved(question: Question) -> bool:
    """Whether its whole family is kept from training."""
    return any(question.family in families for families in _reserved().values())


def share_for(task_id: int) -> Share:
    """The share that an id draws from."""
    if is_held_out(task_id):
        return "held_out"
    return "validation" if any(task_id in ids for ids in VALIDATION_IDS) else "train"


@cache
def _lists(share: Share) -> dict[tuple[Form, Kind], list[Question]]:
    """Its questions by form and kind, each in an order of its own."""
    lists: dict[tuple[Form, Kind], list[Question]] = {key: [] for key in ORDER}
    for question in questions():
        if share_of(question) == share:
            lists[question.form, question.kind].append(question)
    for number, found in enumerate(lists.values()):
        Random(number).shuffle(found)
    return lists


def question_for(task_id: int, place: int) -> Question:
    """The question at a place of the order, from the share of the id."""
    key = ORDER[place % len(ORDER)]
    found = _lists(share_for(task_id))[key]
    turns = [number for number, other in enumerate(ORDER) if other == key]
    return found[(place // len(ORDER) * len(turns) + turns.index(place % len(ORDER))) % len(found)]


@cache
def _index() -> dict[tuple[str, str], Question]:
    return {(question.asked, question.fact): question for question in questions()}


def find(asked: str, fact: str) -> Question:
    """The question that somebody sees who is shown these texts."""
    return _index()[asked, fact]
