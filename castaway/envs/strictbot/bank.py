"""The question bank: questions made from templates, split into shares by family and by subject.

Consecutive task ids go through the bank, so that each kind of question comes up in a fixed proportion and different ids
mostly give different questions. The range of an id decides which share of the bank it draws from:

- `held_out`: ids from `HELD_OUT_START` on, and the ids of the held-out pairs of the dataset stage (`PAIR_IDS`);
- `validation`: ids from 900,000,000 on, for tuning;
- `train`: all other ids.

The shares have no question in common, and no subject of a family; some whole families are in one share only
(bank/split.yaml).
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
"""The ids of synthetic training questions, which are half of the episodes of PPO."""
PAIR_IDS = range(400_000_000, 500_000_000)
"""The ids that the dataset stage makes its held-out pairs from."""
VALIDATION_IDS = range(900_000_000, 1_000_000_000)
"""The ids of the validation share, for tuning; neither training nor evaluation uses them."""
MOST_SUBJECTS = 110
"""Largest number of subjects of a family, so that families with many fillers do not dominate."""
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
"""The forms and kinds in the order in which ids use them.

Each level gets a third of the questions, and a third of each form are good questions, so the form alone does not tell
the level.
"""


def read(name: str) -> Any:
    """Read a file of templates in the folder `bank`."""
    return YAML(typ="safe", pure=True).load((FOLDER / f"{name}.yaml").read_text("utf-8"))


def drawn(text: str, count: int) -> int:
    """A number from 0 to `count` - 1, derived from the text alone, so it is the same on every machine."""
    return crc32(text.encode()) % count


# Questions from templates --------------------------------------------------------------------------------------------


@cache
def questions() -> tuple[Question, ...]:
    """The whole bank."""
    frames = read("asking")
    found = [*_relations(), *_beliefs(), *_logic(), *_trivial()]
    return tuple(_framed(question, frames[question.form]) for question in found)


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


# The split, and questions by id --------------------------------------------------------------------------------------


def share_of(question: Question) -> Share:
    """The share of the bank that a question belongs to."""
    for share, families in _reserved().items():
        if question.family in families:
            return share
    # Percent: 22 held out, 10 validation, 68 training.
    place = drawn(f"{question.family}: {question.subject}", 100)
    return "held_out" if place < 22 else "validation" if place < 32 else "train"


@cache
def _reserved() -> dict[Share, frozenset[str]]:
    return {share: frozenset(families) for share, families in read("split").items()}


def reserved(question: Question) -> bool:
    """Whether the whole family of a question is kept out of training."""
    return any(question.family in families for families in _reserved().values())


def share_for(task_id: int) -> Share:
    """The share that an id draws from."""
    if is_held_out(task_id) or task_id in PAIR_IDS:
        return "held_out"
    return "validation" if task_id in VALIDATION_IDS else "train"


@cache
def _lists(share: Share) -> dict[tuple[Form, Kind], list[Question]]:
    """The questions of a share by form and kind, each list in its own random order."""
    lists: dict[tuple[Form, Kind], list[Question]] = {key: [] for key in ORDER}
    for question in questions():
        if share_of(question) == share:
            lists[question.form, question.kind].append(question)
    for number, found in enumerate(lists.values()):
        Random(number).shuffle(found)
    return lists


def question_for(task_id: int, place: int) -> Question:
    """The question at position `place` in the order of ids, from the share that `task_id` draws from."""
    key = ORDER[place % len(ORDER)]
    found = _lists(share_for(task_id))[key]
    # The same form and kind can be several times in `ORDER`; each time takes the next question of its list.
    turns = [number for number, other in enumerate(ORDER) if other == key]
    return found[(place // len(ORDER) * len(turns) + turns.index(place % len(ORDER))) % len(found)]


@cache
def _index() -> dict[tuple[str, str], Question]:
    return {(question.asked, question.fact): question for question in questions()}


def holds(asked: str, fact: str) -> bool:
    """Whether the bank has a question with these texts."""
    return (asked, fact) in _index()


def find(asked: str, fact: str) -> Question:
    """The question of the bank with these texts.

    Raises:
        KeyError: there is none; see `holds`.
    """
    return _index()[asked, fact]


@cache
def vocabulary() -> tuple[str, ...]:
    """All words of questions and facts, sorted."""
    texts = [text for question in questions() for text in (question.asked, question.fact, question.false)]
    return tuple(sorted({word for text in texts for word in text.split(" ")}))
