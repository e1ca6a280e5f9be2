"""The contract of a task: a game together with what is needed to train on it and to report results.

Subclass `Task` and name the class in an entry point of the group `castaway.tasks`. Then the whole pipeline (dataset,
SFT, reward model, PPO, correction-SFT, evaluation, merge) runs on your task; `castaway task new NAME` writes such a
package.

    [project.entry-points."castaway.tasks"]
    lights = "castaway_lights.task:Lights"

An instance is the task with one `game` section of `params.yaml`. It holds no episode state; the environments that it
makes do. The result of every method must depend only on its arguments, `Random` objects included, so that the same
parameters give the same bytes. Only `make`, `expert` and `demonstrator` must be implemented.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from random import Random
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from castaway.config.section import Section
from castaway.tasks.environment import (
    HELD_OUT_START,
    CurriculumStage,
    Message,
    Outcome,
    Played,
    Prompt,
    TextEnvironment,
)
from castaway.tasks.reply import Reply, markdown, reason_only, unlabelled

Game = TypeVar("Game", bound=Section)

Player = Callable[[Prompt], Reply]  # replies to prompts, maybe of several episodes in turn, so it remembers none

PairRow = tuple[tuple[Message, ...], str, str]  # the messages of a prompt, the preferred reply, the rejected one


@dataclass(frozen=True)
class WrittenText:
    """The training data read from one answer: a situation with a reply, and preference pairs."""

    identity: str  # equal for duplicates
    prompt: Prompt
    reply: Reply
    pairs: Sequence[PairRow]


class WritingTask(Protocol):
    """Makes numbered requests for a teacher, and reads its answers."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema that an answer must match."""

    @property
    def known(self) -> Collection[str]:
        """Identities to reject, because the task has these situations already."""

    def request(self, number: int) -> list[Message]:
        """The chat messages of request `number`; no two requests are the same."""

    def read(self, number: int, text: str) -> WrittenText:
        """Read the answer to request `number`; ValueError, in a few words for the teacher, if it cannot be used."""


class Task(ABC, Generic[Game]):
    """A task with one `game` section; the module docstring states the contract."""

    name: ClassVar[str]  # the name of the entry point
    game_model: ClassVar[type[Section]]  # the model that checks the `game` section of `params.yaml`; frozen and strict
    evaluation_seats: ClassVar[tuple[str, ...]]  # the first is the main seat, which `success_rate` refers to
    aimless: ClassVar[str] = "any"  # a reasoning without content, for pairs in which only the actions differ
    curves: ClassVar[tuple[str, ...]] = ()  # details of an outcome whose means PPO logs, such as `("toxicity",)`
    makes_synthetic: bool = False  # whether `synthetic` is implemented; a task may decide it by its `game` section

    def __init__(self, game: Game) -> None:
        self.game = game

    # What must be implemented ----------------------------------------------------------------------------------------

    @abstractmethod
    def make(self) -> TextEnvironment:
        """A new environment; several are used at the same time."""

    @abstractmethod
    def expert(self, prompt: Prompt) -> Reply:
        """The reply of a competent player: the preferred one in preference pairs."""

    @abstractmethod
    def demonstrator(self, random: Random, random_action_rate: float) -> Player:
        """An imperfect player for SFT and pretraining, aimless in a share of its turns; draws from `random` alone."""

    def shortfall(self, prompt: Prompt, action: str) -> float | None:
        """How much a legal action falls short of the best: 0 if none is better, 1 if all others are; None if unknown.

        With `ppo.corrections.scope: moves` the teacher's penalty grows with it.
        """
        return None

    # Which episodes are played ---------------------------------------------------------------------------------------

    @property
    def scripted_seat(self) -> str:
        """The seat that the demonstrator plays, such as one with the turns of every agent; by default the main seat."""
        return self.evaluation_seats[0]

    def training_ids(self) -> Sequence[int]:
        """The ids that a policy is trained on; evaluation adds `HELD_OUT_START`. By default all.

        Example: `range(0, HELD_OUT_START, 20)`, if every twentieth id belongs to the trained game.
        """
        return range(HELD_OUT_START)

    def unseen_ids(self) -> Sequence[int]:
        """Ids of situations unlike all of training, such as larger boards, which the evaluation plays too."""
        return ()

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        """The stages of training, easiest first; by default one stage with the main seat and all training ids.

        `episodes` is the size of a PPO step, for stages that mix seats in fixed proportions:
        `(CurriculumStage("all", self.training_ids(), ("crew",) * 8 + ("traitor",) * 2),)`.
        """
        return (CurriculumStage("all", self.training_ids(), self.evaluation_seats[:1]),)

    def kind_of(self, task_id: int) -> str:
        """The kind of the episode with this id, in one word, for figures by kind, such as the game that it is of."""
        return "game"

    def situation(self, prompt: Prompt) -> str:
        """The kind of situation that a prompt shows; with `dataset.balanced` there are demonstrations of each alike."""
        return prompt.role

    # Text for pretraining a tiny base model --------------------------------------------------------------------------

    def practice(self, observation: Any, random: Random, count: int) -> list[Reply]:
        """At most `count` more replies to a situation, good or bad, which teach a tiny model to read the prompt.

        Example: `[Reply(f"lamp {n}", f"PRESS {n}") for n in random.sample(range(6), count)]`. By default none.
        """
        return []

    def slip(self, reply: Reply, random: Random) -> str:
        """The reply with one format error of instruct models; by default bold, without labels, or without an action."""
        return random.choice((markdown, unlabelled, reason_only))(reply)

    def synthetic(self, environment: TextEnvironment, prompt: Prompt, random: Random) -> Prompt:
        """A synthetic situation for the agent of `prompt`: the same sailor with another load, for example."""
        return prompt

    def vocabulary(self) -> list[str]:
        """Words that get a token of their own in a base model with `whole_words`, such as `["lamp", "PRESS"]`."""
        return []

    # Data ------------------------------------------------------------------------------------------------------------

    def preference_pairs(self, prompts: Sequence[Prompt], count: int, random: Random) -> list[PairRow] | None:
        """At most `count` preference pairs of the task's own for the reward model.

        By default None: the expert's reply is preferred to one that suits another situation, so none is better on its
        own.
        """
        return None

    def writing_task(self, environment: TextEnvironment) -> WritingTask | None:
        """What a served teacher is asked to write for the dataset (`dataset.written`); by default None, for nothing."""
        return None

    def rubric(self) -> str:
        """The game and its strategic mistakes in a few sentences, for a served teacher.

        By default the file `rubric.txt` in the package of the class, or an empty text.
        """
        package = type(self).__module__.rpartition(".")[0]
        path = resources.files(package) / "rubric.txt" if package else None  # None: the task is a single module
        return path.read_text("utf-8").strip() if path and path.is_file() else ""

    # What is reported ------------------------------------------------------------------------------------------------

    def pair_groups(self, messages: Sequence[Message], chosen: str, rejected: str) -> Mapping[str, str]:
        """The groups of a pair, by grouping, that accuracy is reported for: `{"sort": "false"}`, for example."""
        return {}

    def fits(self, answers: Sequence[tuple[Sequence[Message], str]]) -> list[float] | None:
        """The true quality of each (messages, reply), to correlate the reward model's scores with; None if unknown."""
        return None

    def report(self, outcomes: Sequence[Outcome], truncated: Sequence[bool]) -> dict[str, float]:
        """More figures of a policy in the main seat, from its outcomes and whether a reply was cut off in each."""
        return {}

    def examined(self, answers: Callable[[Sequence[Prompt]], Sequence[str]]) -> dict[str, float]:
        """More figures of a policy, which need no episodes: `answers` gives its replies to prompts."""
        return {}

    def yardsticks(self) -> Mapping[str, Callable[[int, str], Played]]:
        """Further players for `compare`, which read no prompts, such as a search: each plays out an id in a seat."""
        return {}

    def compare(self, played: Mapping[str, Sequence[Played]]) -> dict[str, Any]:
        """Figures that compare players on the same episodes in the same order: `{"final": {"gap_closed": 0.8}}`.

        `played` has each policy but the base model, the scripted players and the `yardsticks`.
        """
        return {}
