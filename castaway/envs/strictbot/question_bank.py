"""The question bank: questions by task id, split into shares by family and by subject.

Consecutive task ids go through the bank, so that each kind of question comes up in a fixed proportion and different ids
mostly give different questions. The range of an id decides which share of the bank it draws from:

- `held_out`: ids from `HELD_OUT_START` on, and the ids of the held-out pairs of the dataset stage (`PAIR_IDS`);
- `validation`: ids from 900,000,000 on, for tuning;
- `train`: all other ids.

The shares have no question in common, and no subject of a family; some whole families are in one share only (the file
`split` of a bank).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from random import Random
from typing import Any, Literal, Self, TypeVar
from zlib import crc32

from ruamel.yaml import YAML

from castaway.tasks.environment import is_held_out

Item = TypeVar("Item")
Kind = Literal["factual error", "misconception", "poor logic", "trivial", "good question"]
Form = Literal["check", "belief", "conclusion", "open"]

LEVEL_OF: dict[Kind, int] = {"factual error": 3, "misconception": 3, "poor logic": 2, "trivial": 2, "good question": 1}
"""Kind to the level that it deserves: 3 a firm correction, 2 a challenge to the reasoning, 1 help."""
NAMES = {1: "help", 2: "a challenge to the reasoning", 3: "a firm correction"}  # level to its name in text
LEVELS = tuple(NAMES)


@dataclass(frozen=True, slots=True)
class Observation:
    """A question without its kind, family and level. Neither text has a line break, so a prompt can be read back."""

    asked: str
    fact: str


@dataclass(frozen=True, slots=True)
class Question:
    asked: str  # the text; without a question mark in the compact rendering
    fact: str  # the fact, which the tutor is shown; a right answer contains it, word for word
    false: str  # a false statement of the same form
    kind: Kind
    form: Form  # the grammatical form; each form has good questions and others
    family: str  # the topic or template that the question was made from
    subject: str  # what it is about; all questions of a family with the same subject are in the same share of the bank
    wording: int = 0  # number of the wording, if the same is asked in several ways
    claim: str = ""  # the clause that is claimed, concluded or taken for granted, without slips of the pen, or empty
    doubtful: bool = False  # whether the conclusion is only held to be possible, or doubted
    opposite: bool = False  # whether the opposite of what is so is taken as the fact; see `with_opposite_fact`

    @property
    def level(self) -> int:
        return LEVEL_OF[self.kind]

    @property
    def observation(self) -> Observation:
        return Observation(self.asked, self.fact)

    def with_opposite_fact(self) -> Self:
        """The same where the false statement is the fact: so the claim alone does not tell the kind.

        Counterfactual data augmentation: Kaushik, Hovy and Lipton 2020, arXiv:1909.12434.
        """
        assert self.form in ("check", "belief"), "the false statement decides nothing about any other form"
        wrong: Kind = "factual error" if self.form == "check" else "misconception"
        kind: Kind = "good question" if self.kind == wrong else wrong
        return replace(self, fact=self.false, false=self.fact, kind=kind, opposite=True)


Share = Literal["train", "validation", "held_out"]

FOLDER = Path(__file__).parent / "bank"
SYNTHETIC_IDS = range(300_000_000, 400_000_000)  # synthetic: half of PPO's episodes in the compact rendering
PAIR_IDS = range(400_000_000, 500_000_000)  # the held-out pairs of the dataset stage
VALIDATION_IDS = range(900_000_000, 1_000_000_000)  # for tuning alone


@cache
def read(name: str) -> Any:
    """The content of a file of the folder `bank`: `compact/answers`, for example. Nobody may change it."""
    return YAML(typ="safe", pure=True).load((FOLDER / f"{name}.yaml").read_text("utf-8"))


ORDER: tuple[tuple[Form, Kind], ...] = tuple(map(tuple, read("order")))


def text_hash(text: str, count: int) -> int:
    """A number from 0 to `count` - 1, derived from the text alone, so it is the same on every machine."""
    return crc32(text.encode()) % count


def some(rows: Sequence[Item], most: int) -> list[Item]:
    """At most `most` of the rows, selected by their checksums: a stable choice in a mixed order."""
    return sorted(rows, key=lambda row: crc32(str(row).encode()))[:most]


def share_of_subject(family: str, subject: str, reserved: Mapping[Share, Collection[str]]) -> Share:
    for share, families in reserved.items():
        if family in families:
            return share
    # Percent: 22 held out, 10 validation, 68 training.
    place = text_hash(f"{family}: {subject}", 100)
    return "held_out" if place < 22 else "validation" if place < 32 else "train"


def share_for(task_id: int) -> Share:
    if is_held_out(task_id) or task_id in PAIR_IDS:
        return "held_out"
    return "validation" if task_id in VALIDATION_IDS else "train"


@dataclass(frozen=True, eq=False)
class Bank:
    questions: tuple[Question, ...]
    families: Mapping[Share, Collection[str]]  # the families that are in one share only

    def share_of(self, question: Question) -> Share:
        return share_of_subject(question.family, question.subject, self.families)

    def reserved(self, question: Question) -> bool:
        return any(question.family in families for families in self.families.values())

    @cached_property
    def new_families(self) -> frozenset[str]:
        return frozenset(question.family for question in self.questions if self.reserved(question))

    @cached_property
    def _lists(self) -> dict[Share, dict[tuple[Form, Kind], list[Question]]]:
        lists: dict[Share, dict[tuple[Form, Kind], list[Question]]] = {
            share: {key: [] for key in ORDER} for share in ("train", "validation", "held_out")
        }
        for question in self.questions:
            lists[self.share_of(question)][question.form, question.kind].append(question)
        for by_kind in lists.values():
            for number, questions in enumerate(by_kind.values()):
                Random(number).shuffle(questions)
                questions.sort(key=lambda question: question.wording)  # first wordings first
        return lists

    def question_for(self, task_id: int, place: int) -> Question:
        """The question at position `place` in the order of ids, from the share that `task_id` draws from."""
        key = ORDER[place % len(ORDER)]
        questions = self._lists[share_for(task_id)][key]
        # The same form and kind can be several times in `ORDER`; each time takes the next question of its list.
        turns = [number for number, other in enumerate(ORDER) if other == key]
        return questions[(place // len(ORDER) * len(turns) + turns.index(place % len(ORDER))) % len(questions)]

    @cached_property
    def _index(self) -> dict[tuple[str, str], Question]:
        return {(question.asked, question.fact): question for question in self.questions}

    def find(self, asked: str, fact: str) -> Question | None:
        return self._index.get((asked, fact))

    @cached_property
    def train(self) -> tuple[Question, ...]:
        return tuple(question for question in self.questions if self.share_of(question) == "train")

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All words of the questions that training uses and of their facts, sorted."""
        return tuple(sorted(_words(self.train)))

    @cached_property
    def all_words(self) -> frozenset[str]:
        return frozenset(_words(self.questions))


def _words(questions: Iterable[Question]) -> set[str]:
    texts = (text for question in questions for text in (question.asked, question.fact, question.false))
    return {word for text in texts for word in text.split(" ")}
