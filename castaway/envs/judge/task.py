"""Judging as a task: a model learns the verdicts of the rules on turns of another task, and can then be its teacher.

SFT is enough for that. A served teacher answers in JSON and not in the two labelled lines of other replies, so PPO and
the evaluation have no use for such a run; `castaway teacher measure` says how well a judge agrees with the rules.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from pydantic import SerializeAsAny, ValidationError, model_validator

from castaway.config.errors import CastawayError
from castaway.config.mistakes import explain
from castaway.config.section import Section
from castaway.envs.judge.environment import SEAT, JudgingEnvironment
from castaway.tasks.environment import Prompt
from castaway.tasks.registry import game_model, load_task
from castaway.tasks.reply import Reply
from castaway.tasks.task import Player, Task


class JudgeParams(Section):
    """What is judged: a task, with its `game` section."""

    task: str
    """The name of the task."""
    game: SerializeAsAny[Section]
    """Its `game` section, as in the block of a run."""

    @model_validator(mode="before")
    @classmethod
    def _game_of_the_task(cls, content: Any) -> Any:
        """The content with `game` as the model of its task."""
        if not (isinstance(content, dict) and isinstance(content.get("task"), str) and "game" in content):
            return content
        if content["task"] == Judge.name:
            raise ValueError("task is 'judge', expected another: a judge of judges has no rules to learn from")
        try:
            model = game_model(content["task"])
            return {**content, "game": model.model_validate(content["game"])}
        except ValidationError as error:
            raise ValueError(explain(model, error, ("game",))) from None
        except CastawayError as error:
            raise ValueError(str(error)) from None

    @property
    def tasks(self) -> tuple[str, ...]:
        """The other tasks whose code a run depends on."""
        return (self.task,)


class Verbatim(Reply):
    """A reply that is its action alone, without labels."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.action

    @classmethod
    def read(cls, text: str) -> Reply:
        return cls("", text)


class Judge(Task[JudgeParams]):
    name = "judge"
    game_model = JudgeParams
    evaluation_seats = (SEAT,)

    def __init__(self, game: JudgeParams) -> None:
        super().__init__(game)
        self._judged = load_task(game.task, game.game)

    def make(self) -> JudgingEnvironment:
        return JudgingEnvironment(self._judged)

    def expert(self, prompt: Prompt) -> Reply:
        """The verdict of the rules, in the form in which a served teacher answers."""
        return Verbatim("", prompt.observation.answer)

    def demonstrator(self, random: Random, random_action_rate: float) -> Player:
        """The expert: there is nothing to learn from a wrong verdict."""
        return self.expert

    def training_ids(self) -> Sequence[int]:
        return self._judged.training_ids()

    def kind_of(self, task_id: int) -> str:
        return self._judged.kind_of(task_id)

    def situation(self, prompt: Prompt) -> str:
        """Whether a reply stands, is legal but at fault, or is not legal: with `dataset.balanced`, a third of each."""
        verdict = prompt.observation.verdict
        return "illegal" if not verdict.valid else "at fault" if verdict.penalty else "stands"
