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
"""Replies to prompts, one after another. They may be of several episodes in turn, so it remembers none of them."""

PairRow = tuple[tuple[Message, ...], str, str]
"""A preference pair: the messages of a prompt, the preferred reply, the rejected reply."""

_any_slip = one_of([markdown, unlabelled, reason_only])


class Task(ABC, Generic[Game]):
    """A task with one `game` section; the module docstring states the contract."""

    name: ClassVar[str]
    """The name of the entry point."""
    game_model: ClassVar[type[Section]]
    """The model that checks the `game` section of `params.yaml`; frozen and strict."""
    evaluation_seats: ClassVar[tuple[str, ...]]
    """The seats that a policy is evaluated in; the first is the main seat, which `success_rate` refers to."""
    aimless: ClassVar[str] = "any"
    """A reasoning without content. Some preference pairs use it, so that only the actions can be compared."""
    curves: ClassVar[tuple[str, ...]] = ()
    """Details of an outcome whose means PPO logs at each step, such as `("toxicity",)`."""
    makes_synthetic: bool = False
    """Whether `synthetic` is implemented; a task may decide it by its `game` section."""

    def __init__(self, game: Game) -> None:
        """Make the task with this `game` section."""
        self.game = game

    # What must be implemented ----------------------------------------------------------------------------------------

    @abstractmethod
    def make(self) -> TextEnvironment:
        """A new environment; several are used at the same time.

        Example: `return LightsEnvironment(self.game.size)`.
        """

    @abstractmethod
    def expert(self, prompt: Prompt) -> Reply:
        """The reply of a competent player: the preferred one in preference pairs.

        Example: `return Reply("lamp 3 is dark", "PRESS 3")`.
        """

    @abstractmethod
    def demonstrator(self, random: Random, carelessness: float) -> Player:
        """An imperfect player, whose turns are the demonstrations for SFT and pretraining text for a tiny base model.

        Args:
            random: the source of all its random choices.
            carelessness: the share of its turns in which it does something aimless, 0 to 1.

        Example: `return lambda prompt: any_move(prompt) if random.random() < carelessness else self.expert(prompt)`.
        """

    def shortfall(self, prompt: Prompt, action: str) -> float | None:
        """How much a legal action falls short of the best one: 0 if none is better, 1 if all others are.

        With `ppo.correct: moves` the teacher's penalty grows with it. Example: `return better / (legal - 1)`. By
        default None: not known.
        """
        return None

    # Which episodes are played ---------------------------------------------------------------------------------------

    @property
    def scripted_seat(self) -> str:
        """The seat that the demonstrator plays.

        Example: `"all"`, where one episode gives the turns of every agent. By default the main seat.
        """
        return self.evaluation_seats[0]

    def training_ids(self) -> Sequence[int]:
        """The training ids that a policy is trained on; evaluation uses the same ids plus `HELD_OUT_START`.

        Example: `range(0, HELD_OUT_START, 20)`, if every twentieth id belongs to the trained game. By default all ids.

        Raises:
            CastawayError: the `game` section names something that does not exist.
        """
        return range(HELD_OUT_START)

    def unseen_ids(self) -> Sequence[int]:
        """Ids of situations unlike all of training, such as boards of other sizes; the evaluation plays them too.

        Example: `return range(500)`. By default none.
        """
        return ()

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        """The stages of training, easiest first; by default one stage with the main seat and all training ids.

        Args:
            episodes: number of episodes in a PPO step, for stages that mix seats in fixed proportions.

        Example: `return (CurriculumStage("all", self.training_ids(), ("crew",) * 8 + ("traitor",) * 2),)`.
        """
        return (CurriculumStage("all", self.training_ids(), self.evaluation_seats[:1]),)

    def kind_of(self, task_id: int) -> str:
        """The kind of the episode with this id, in one word, for figures by kind.

        Example: the name of the game that the id selects. By default all episodes are of one kind.
        """
        return "game"

    def situation(self, prompt: Prompt) -> str:
        """The kind of situation that a prompt shows; with `dataset.balanced` there are demonstrations of each alike.

        Example: the role and the phase, if votes are rare and decide much. By default the role.
        """
        return prompt.role

    # Text for pretraining a tiny base model --------------------------------------------------------------------------

    def practice(self, observation: Any, random: Random, count: int) -> list[Reply]:
        """At most `count` more replies to a situation, good or bad, legal or illegal, for pretraining.

        They teach a tiny model to read the prompt.

        Example: `return [Reply(f"lamp {n}", f"PRESS {n}") for n in random.sample(range(6), count)]`. By default none.
        """
        return []

    def slip(self, reply: Reply, random: Random) -> str:
        """The reply as text with one format error, of the kind that instruct models make.

        Example: `return f"I press {reply.action}"`. By default a bold action, missing labels, or no action at all.
        """
        return _any_slip(reply, random)

    def synthetic(self, environment: TextEnvironment, prompt: Prompt, random: Random) -> Prompt:
        """A synthetic situation for the agent of `prompt`; called only if `makes_synthetic` is true.

        `environment` comes from `make`. Example: the same sailor with another ship, store and load.
        """
        return prompt

    def vocabulary(self) -> list[str]:
        """Words that get a token of their own in a base model with `whole_words`.

        Example: `return ["lamp", "PRESS"]`. By default none.
        """
        return []

    # Data ------------------------------------------------------------------------------------------------------------

    def preference_pairs(self, prompts: Sequence[Prompt], count: int, random: Random) -> list[PairRow] | None:
        """At most `count` preference pairs of the task's own for the reward model; None for the standard ones.

        Example: a right answer against the same one with an insult. By default None: the expert's reply is preferred
        to a reply that suits another situation, balanced so that no reply is better on its own.
        """
        return None

    def writing_task(self, environment: TextEnvironment) -> WritingTask | None:
        """What a served teacher is asked to write for the dataset (`dataset.written`); None for nothing.

        Example: `return Exercises(environment)`. By default None.
        """
        return None

    def rubric(self) -> str:
        """The description of the game and its strategic mistakes for a served teacher, in a few sentences.

        Example: `return "A row of lamps. A blunder is to press one that is lit."`. By default the text of the file
        `rubric.txt` in the package of the class, or an empty text if there is no such file.
        """
        package = type(self).__module__.rpartition(".")[0]
        path = resources.files(package) / "rubric.txt" if package else None  # None: the task is a single module
        return path.read_text("utf-8").strip() if path and path.is_file() else ""

    # What is reported ------------------------------------------------------------------------------------------------

    def pair_groups(self, messages: Sequence[Message], chosen: str, rejected: str) -> Mapping[str, str]:
        """The groups of a preference pair, by grouping; the reward model's accuracy is reported for each group.

        Example: `{"sort": "false"}`, if the rejected answer states something false. By default no groups.
        """
        return {}

    def fits(self, answers: Sequence[tuple[Sequence[Message], str]]) -> list[float] | None:
        """The true quality of each (messages, reply), to correlate the reward model's scores with; None if unknown.

        Example: 1.0 for the right level, 0.5 for the next one. By default None.
        """
        return None

    def report(self, outcomes: Sequence[Outcome], truncated: Sequence[bool]) -> dict[str, float]:
        """More figures of a policy in the main seat; the interval of a share `x` is in `x_low` and `x_high`.

        Args:
            outcomes: the outcome of each episode.
            truncated: whether a reply was cut off, for each episode.

        Example: `return {"mean_length": mean(o.details["length"] for o in outcomes)}`. By default none.
        """
        return {}

    def compare(self, played: Mapping[str, Sequence[Played]]) -> dict[str, Any]:
        """Figures that compare the policies: more figures of a policy, or figures under a new name.

        Args:
            played: policy to its results, on the same episodes in the same order.

        Example: `{"final": {"gap_closed": 0.8}, "random": {"success_rate": 0.5}}`. By default none.
        """
        return {}
