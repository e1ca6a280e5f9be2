"""The contract of a task: a game, the players whose play is data, and what is learned and reported of it.

Subclass `Task`, name the class in an entry point of the group `castaway.tasks`, and the whole pipeline (dataset, SFT,
reward model, PPO, correction-SFT, evaluation, merge) builds your task; `castaway task new NAME` writes such a package.

    [project.entry-points."castaway.tasks"]
    lights = "castaway_lights.task:Lights"

An instance is the task with one game section of `params.yaml`. It holds no state of an episode: that is the business of
the environments that it makes. Everything here has to be a function of its arguments, the random stream among them, so
that the same parameters give the same bytes. Only `make`, `expert` and `demonstrator` have to be written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

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
from castaway.tasks.reply import Reply
from castaway.tasks.slips import markdown, one_of, reason_only, unlabelled
from castaway.tasks.writing import WritingTask

Game = TypeVar("Game", bound=Section)

Player = Callable[[Prompt], Reply]
"""Answers one prompt after another."""

PairRow = tuple[tuple[Message, ...], str, str]
"""A preference pair: the messages of a prompt, the answer to prefer, and the other one."""

_any_slip = one_of([markdown, unlabelled, reason_only])


class Task(ABC, Generic[Game]):
    """A task with the game section that describes it. See the module."""

    name: ClassVar[str]
    """The name of the entry point."""
    game_model: ClassVar[type[Section]]
    """What `game` may hold in `params.yaml`: a frozen, strict model."""
    evaluation_seats: ClassVar[tuple[str, ...]]
    """The seats that a policy is evaluated in; the first is the main one, of which `success_rate` speaks."""
    aimless: ClassVar[str] = "any"
    """A reasoning that says nothing. Some preference pairs bear it, so that the actions themselves are judged."""
    curves: ClassVar[tuple[str, ...]] = ()
    """Details of an outcome whose means are curves of PPO, such as `("toxicity",)`."""
    makes_synthetic: ClassVar[bool] = False
    """Whether `synthetic` makes situations that nobody played."""

    def __init__(self, game: Game) -> None:
        """The task as this section of the parameters describes it."""
        self.game = game

    # What has to be written ------------------------------------------------------------------------------------------

    @abstractmethod
    def make(self) -> TextEnvironment:
        """A new environment; many of them play side by side.

        Example: `return LightsEnvironment(self.game.size)`.
        """

    @abstractmethod
    def expert(self, prompt: Prompt) -> Reply:
        """What a competent player answers: the answer to prefer in preference pairs.

        Example: `return Reply("lamp 3 is dark", "PRESS 3")`.
        """

    @abstractmethod
    def demonstrator(self, random: Random, carelessness: float) -> Player:
        """An ordinary player, whose turns are the demonstrations of SFT and the text of a tiny base model.

        Args:
            random: all of its luck.
            carelessness: the share of its turns in which it does something aimless, from 0 to 1.

        Example: `return lambda prompt: any_move(prompt) if random.random() < carelessness else self.expert(prompt)`.
        """

    # Which episodes are played ---------------------------------------------------------------------------------------

    @property
    def scripted_seat(self) -> str:
        """The seat whose turns demonstrations are made of.

        Example: `"all"`, where one episode then gives the turns of every agent. The default is the main seat.
        """
        return self.evaluation_seats[0]

    def training_ids(self) -> Sequence[int]:
        """The training ids of what a policy is trained in; held-out ids are the same, moved by `HELD_OUT_START`.

        Example: `range(0, HELD_OUT_START, 20)`, where every twentieth id is of the trained game. By default all.

        Raises:
            CastawayError: the game section names something that there is not.
        """
        return range(HELD_OUT_START)

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        """What is played in training, easy stages first; by default one stage, the main seat on all training ids.

        Args:
            episodes: how many PPO plays in a step, for stages that mix seats in fixed shares.

        Example: `return (CurriculumStage("all", self.training_ids(), ("crew",) * 8 + ("traitor",) * 2),)`.
        """
        return (CurriculumStage("all", self.training_ids(), self.evaluation_seats[:1]),)

    def kind_of(self, task_id: int) -> str:
        """What kind of episode an id is, in a word, for figures by kind.

        Example: the name of the game that the id stands for. By default all are of one kind.
        """
        return "game"

    # Text for pretraining a tiny base model --------------------------------------------------------------------------

    def practice(self, observation: Any, random: Random, count: int) -> list[Reply]:
        """At most `count` further answers to a situation, legal or not, wise or not: reading practice.

        Example: `return [Reply(f"lamp {n}", f"PRESS {n}") for n in random.sample(range(6), count)]`. By default none.
        """
        return []

    def slip(self, reply: Reply, random: Random) -> str:
        """An answer with one mistake of form in it, as instruct models make them.

        Example: `return f"I press {reply.action}"`. By default bold letters, missing labels, or no action at all.
        """
        return _any_slip(reply, random)

    def synthetic(self, environment: TextEnvironment, prompt: Prompt, random: Random) -> Prompt:
        """A situation that nobody played, for the agent of `prompt`; asked only where `makes_synthetic`.

        `environment` is one that `make` made. Example: the same sailor with another ship, store and load.
        """
        return prompt

    def vocabulary(self) -> list[str]:
        """Words that a base model with `whole_words` has a token for, each.

        Example: `return ["lamp", "PRESS"]`. By default none.
        """
        return []

    # Data ------------------------------------------------------------------------------------------------------------

    def preference_pairs(self, prompts: Sequence[Prompt], count: int, random: Random) -> list[PairRow] | None:
        """About `count` pairs of the task's own for the reward model, no more.

        Example: a right answer against the same one with an insult. By default None: the expert's answer is preferred
        to one that suits another situation, balanced so that no answer is better in itself.
        """
        return None

    def writing_task(self, environment: TextEnvironment) -> WritingTask | None:
        """What a served teacher is asked to write for training (`dataset.written`).

        Example: `return Exercises(environment)`. By default None: nothing.
        """
        return None

    def rubric(self) -> str:
        """What a served teacher is told of the game and of its blunders, in a few sentences.

        Example: `return "A row of lamps. A blunder is to press one that is lit."`. By default the text of the file
        `rubric.txt` beside the module of the class; nothing where there is none.
        """
        path = resources.files(type(self).__module__.rpartition(".")[0]) / "rubric.txt"
        return path.read_text("utf-8").strip() if path.is_file() else ""

    # What is reported ------------------------------------------------------------------------------------------------

    def pair_groups(self, messages: Sequence[Message], chosen: str, rejected: str) -> Mapping[str, str]:
        """By what names a pair is grouped, and its group by each; the reward model's accuracy is told for every group.

        Example: `{"sort": "false"}`, where the rejected answer says what is not so. By default none.
        """
        return {}

    def fits(self, answers: Sequence[tuple[Sequence[Message], str]]) -> list[float] | None:
        """How good answers really are, which the reward model's scores are correlated with.

        Example: 1.0 for the right level, 0.5 for the next one. By default None: nobody knows.
        """
        return None

    def report(self, outcomes: Sequence[Outcome], truncated: Sequence[bool]) -> dict[str, float]:
        """Further figures of a policy in the main seat; a share `x` has its interval in `x_low` and `x_high`.

        Args:
            outcomes: how the episodes ended.
            truncated: whether a reply of each was cut off.

        Example: `return {"mean_length": mean(o.details["length"] for o in outcomes)}`. By default none.
        """
        return {}

    def compare(self, played: Mapping[str, Sequence[Played]]) -> dict[str, Any]:
        """Figures of the policies beside each other: added to those of each policy, or new ones by another name.

        Args:
            played: by policy, what became of the same episodes in the same order.

        Example: `{"final": {"gap_closed": 0.8}, "random": {"success_rate": 0.5}}`. By default none.
        """
        return {}
