"""The question bank: questions by task id, split into shares by family and by subject.

Consecutive task ids go through the bank, so that each kind of question comes up in a fixed proportion and different ids
mostly give different questions. The range of an id decides which share of the bank it draws from:

- `held_out`: ids from `HELD_OUT_START` on, and the ids of the held-out pairs of the dataset stage (`PAIR_IDS`);
- `validation`: ids from 900,000,000 on, for tuning;
- `train`: all other ids.

The shares have no question in common, and no subject of a family; some whole families are in one share only (the file
`split` of a bank).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, Literal
from zlib import crc32

from ruamel.yaml import YAML

from castaway.envs.strictbot.question import Form, Kind, Question
from castaway.tasks.environment import is_held_out

Share = Literal["train", "validation", "held_out"]

FOLDER = Path(__file__).parent / "bank"
MADE_UP_IDS = range(300_000_000, 400_000_000)
"""The ids of synthetic training questions, which are half of the episodes of PPO in the compact rendering."""
PAIR_IDS = range(400_000_000, 500_000_000)
"""The ids that the dataset stage makes its held-out pairs from."""
VALIDATION_IDS = range(900_000_000, 1_000_000_000)
"""The ids of the validation share, for tuning; neither training nor evaluation uses them."""
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
    """Read a file of the folder `bank`: `compact/answers`, for example."""
    return YAML(typ="safe", pure=True).load((FOLDER / f"{name}.yaml").read_text("utf-8"))


def drawn(text: str, count: int) -> int:
    """A number from 0 to `count` - 1, derived from the text alone, so it is the same on every machine."""
    return crc32(text.encode()) % count


def share_of_subject(family: str, subject: str, reserved: Mapping[Share, Collection[str]]) -> Share:
    """The share of all questions of a family about one subject."""
    for share, families in reserved.items():
        if family in families:
            return share
    # Percent: 22 held out, 10 validation, 68 training.
    place = drawn(f"{family}: {subject}", 100)
    return "held_out" if place < 22 else "validation" if place < 32 else "train"


def share_for(task_id: int) -> Share:
    """The share that an id draws from."""
    if is_held_out(task_id) or task_id in PAIR_IDS:
        return "held_out"
    return "validation" if task_id in VALIDATION_IDS else "train"


@dataclass(frozen=True, eq=False)
class Bank:
    """The questions of one rendering."""

    questions: tuple[Question, ...]
    families: Mapping[Share, Collection[str]]
    """The families that are in one share only."""

    def share_of(self, question: Question) -> Share:
        """The share of the bank that a question belongs to."""
        return share_of_subject(question.family, question.subject, self.families)

    def reserved(self, question: Question) -> bool:
        """Whether the whole family of a question is kept out of training."""
        return any(question.family in families for families in self.families.values())

    @cached_property
    def new_families(self) -> frozenset[str]:
        """The families of questions that training never uses."""
        return frozenset(question.family for question in self.questions if self.reserved(question))

    @cached_property
    def _lists(self) -> dict[Share, dict[tuple[Form, Kind], list[Question]]]:
        """The questions of each share by form and kind; see `_mixed`."""
        lists: dict[Share, dict[tuple[Form, Kind], list[Question]]] = {
            share: {key: [] for key in ORDER} for share in ("train", "validation", "held_out")
        }
        for question in self.questions:
            lists[self.share_of(question)][question.form, question.kind].append(question)
        for by_kind in lists.values():
            for number, found in enumerate(by_kind.values()):
                _mix(found, number)
        return lists

    def question_for(self, task_id: int, place: int) -> Question:
        """The question at position `place` in the order of ids, from the share that `task_id` draws from."""
        key = ORDER[place % len(ORDER)]
        found = self._lists[share_for(task_id)][key]
        # The same form and kind can be several times in `ORDER`; each time takes the next question of its list.
        turns = [number for number, other in enumerate(ORDER) if other == key]
        return found[(place // len(ORDER) * len(turns) + turns.index(place % len(ORDER))) % len(found)]

    @cached_property
    def _index(self) -> dict[tuple[str, str], Question]:
        return {(question.asked, question.fact): question for question in self.questions}

    def holds(self, asked: str, fact: str) -> bool:
        """Whether the bank has a question with these texts."""
        return (asked, fact) in self._index

    def find(self, asked: str, fact: str) -> Question:
        """The question of the bank with these texts.

        Raises:
            KeyError: there is none; see `holds`.
        """
        return self._index[asked, fact]

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All words of the questions that training uses and of their facts, sorted."""
        return tuple(sorted(_words(one for one in self.questions if self.share_of(one) == "train")))

    @cached_property
    def all_words(self) -> frozenset[str]:
        """The words of all questions and facts: those that only evaluation may show are among them."""
        return frozenset(_words(self.questions))


def _words(questions: Iterable[Question]) -> set[str]:
    texts = (text for question in questions for text in (question.asked, question.fact, question.false))
    return {word for text in texts for word in text.split(" ")}


def _mix(found: list[Question], seed: int) -> None:
    """Bring questions into a random order in which further wordings of a subject come after all first ones."""
    Random(seed).shuffle(found)
    found.sort(key=lambda question: question.wording)
