"""STRICTBOT as a task: ordinary tutors, pairs of its own, exercises that a served teacher writes, and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from castaway.envs.strictbot import bank
from castaway.envs.strictbot.answers import texts
from castaway.envs.strictbot.bank import MADE_UP_IDS
from castaway.envs.strictbot.commission import Commission
from castaway.envs.strictbot.environment import StrictbotEnvironment
from castaway.envs.strictbot.imagination import imagined, question_at
from castaway.envs.strictbot.pairs import fits, pair_group, preference_pairs
from castaway.envs.strictbot.params import StrictbotParams
from castaway.envs.strictbot.players import demonstrator, expert
from castaway.envs.strictbot.practice import practice, slip
from castaway.envs.strictbot.report import report
from castaway.tasks.environment import CurriculumStage, Message, Outcome, Prompt, TextEnvironment
from castaway.tasks.reply import Reply
from castaway.tasks.task import PairRow, Player, Task


class Strictbot(Task[StrictbotParams]):
    """One question, one answer, as strict as the question deserves."""

    name = "strictbot"
    game_model = StrictbotParams
    evaluation_seats = ("one",)
    scripted_seat = "all"
    aimless = "a question"
    curves = ("factual", "constructiveness", "toxicity", "inconsistency")
    makes_synthetic = True

    def make(self) -> StrictbotEnvironment:
        """Questions shown and answers paid as the game section says."""
        return StrictbotEnvironment(self.game)

    def expert(self, prompt: Prompt) -> Reply:
        """A tutor who knows the bank."""
        return expert(prompt)

    def demonstrator(self, random: Random, carelessness: float) -> Player:
        """An ordinary tutor: in a share of the answers it does not look, and takes any kind, level and ending."""
        return demonstrator(random, carelessness)

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        """One stage: half of the questions from the training share of the bank, and half of them synthetic.

        With the bank's alone, facts of other words than its own get worse while the level gets better.
        """
        count = len(MADE_UP_IDS)
        return (CurriculumStage("all", range(MADE_UP_IDS.start - count, MADE_UP_IDS.stop), ("one",)),)

    def kind_of(self, task_id: int) -> str:
        """The category of the question that the id stands for."""
        return question_at(task_id, task_id).kind

    def practice(self, observation: Any, random: Random, count: int) -> list[Reply]:
        """The same question answered at other levels."""
        return practice(observation, random, count)

    def slip(self, reply: Reply, random: Random) -> str:
        """An answer under another label or said twice, and what goes wrong in any game."""
        return slip(reply, random)

    def synthetic(self, environment: TextEnvironment, prompt: Prompt, random: Random) -> Prompt:
        """A question that is not in the bank."""
        assert isinstance(environment, StrictbotEnvironment)
        return environment.prompt_of(prompt.agent, imagined(prompt.observation, random))

    def vocabulary(self) -> list[str]:
        """The words of all questions, and of the answers."""
        return [*bank.vocabulary(), *(word for text in texts() for word in text.split(" "))]

    def preference_pairs(self, prompts: Sequence[Prompt], count: int, random: Random) -> list[PairRow]:
        """By level, fact, length and abuse, balanced so that no answer is better in itself."""
        return preference_pairs(prompts, count, random)

    def writing_task(self, environment: TextEnvironment) -> Commission:
        """Exercises of every kind."""
        assert isinstance(environment, StrictbotEnvironment)
        return Commission(environment)

    def pair_groups(self, messages: Sequence[Message], chosen: str, rejected: str) -> Mapping[str, str]:
        """By what the rejected answer is worse."""
        return pair_group(messages, chosen, rejected)

    def fits(self, answers: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        """How well an answer suits its question, by the bank."""
        return fits(answers)

    def report(self, outcomes: Sequence[Outcome], truncated: Sequence[bool]) -> dict[str, float]:
        """Levels, facts and abuse, in known families and in new ones."""
        return report(outcomes, truncated)
