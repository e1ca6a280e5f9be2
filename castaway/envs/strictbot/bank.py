"""The question bank: templates and fillers become questions, split by family and by subject.

Task ids choose questions in turn, so that every kind comes up as often as it should and many ids give as many different
questions. Which share of the bank an id draws from depends on its range:

- `held_out`: ids from `HELD_OUT_START`, and those that the dataset stage makes its held-out pairs from;
- `validation`: ids from 900,000,000, for tuning;
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

from castaway.envs.strictbot.numbers import number_topics
from castaway.envs.strictbot.question import Form, Kind, Question
from castaway.tasks.environment import is_held_out

Share = Literal["train", "validation", "held_out"]

FOLDER = Path(__file__).parent / "bank"
MADE_UP_IDS = range(300_000_000, 400_000_000)
"""Half of the episodes that PPO draws: training questions about made-up things."""
PAIR_IDS = range(400_000_000, 500_000_000)
"""Where the dataset stage finds its held-out pairs."""
VALIDATION_IDS = range(900_000_000, 1_000_000_000)
"""For tuning: questions of the validation share, which neither training nor evaluation draws."""
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


def _known(value: str) -> str:
    """What is known, as it is shown and as an answer says it."""
    return f"it is {value}"


def _relations() -> Iterator[Question]:
    """Subjects with one right value: claimed wrongly, claimed rightly, and asked for."""
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
    """A wrong value: another subject's."""
    others = [other for other in values if other != value]
    return others[drawn(f"{subject} {value}", len(others))]


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
        cases = [tuple(map(str, case)) for case in topic.get("cases", [])]
        for row in _fillings(topic["fill"]) if "fill" in topic else []:
            cases.append(tuple(str(topic[name]).format(*row) for name in ("claim", "so", "believed")))
        for claim, so, believed in cases:
            fact, false = _known(so), _known(believed)
            yield Question(f"{claim} {believed}", fact, false, "misconception", "belief", family, claim)
            yield Question(f"{claim} {so}", fact, false, "good question", "belief", family, claim)


def _logic() -> Iterator[Question]:
    """Conclusions that do not follow, and where there is one, the one from like words that does."""
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
    """Questions that hold their own answer."""
    for family, topic in read("trivial").items():
        rows, place = _fillings(topic["fill"]), topic["value"]
        values = sorted({row[place] for row in rows})
        for row in rows:
            asked, subject = topic["asked"].format(*row), " ".join(row)
            fact, false = _known(row[place]), _known(_other(values, row[place], subject))
            yield Question(asked, fact, false, "trivial", "open", family, subject)


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
    if is_held_out(task_id) or task_id in PAIR_IDS:
        return "held_out"
    return "validation" if task_id in VALIDATION_IDS else "train"


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


def holds(asked: str, fact: str) -> bool:
    """Whether the bank has a question with these texts."""
    return (asked, fact) in _index()


def find(asked: str, fact: str) -> Question:
    """The bank's question that somebody sees who is shown these texts."""
    return _index()[asked, fact]


@cache
def vocabulary() -> tuple[str, ...]:
    """Every word of a question or of what is known."""
    texts = [text for question in questions() for text in (question.asked, question.fact, question.false)]
    return tuple(sorted({word for text in texts for word in text.split(" ")}))
