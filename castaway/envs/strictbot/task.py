"""STRICTBOT as a task: players, synthetic questions, preference pairs, exercises by a teacher, and figures."""

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
    """One question and one answer, which must be as strict as the question deserves."""

    name = "strictbot"
    game_model = StrictbotParams
    evaluation_seats = ("one",)
    scripted_seat = "all"
    aimless = "a question"
    curves = ("factual", "constructiveness", "toxicity", "inconsistency")
    makes_synthetic = True

    def make(self) -> StrictbotEnvironment:
        """A new environment with the rendering and reward weights of the `game` section."""
        return StrictbotEnvironment(self.game)

    def expert(self, prompt: Prompt) -> Reply:
        """The reply of a perfect tutor, which knows the bank."""
        return expert(prompt)

    def demonstrator(self, random: Random, carelessness: float) -> Player:
        """An imperfect tutor; see `castaway.envs.strictbot.players`."""
        return demonstrator(random, carelessness)

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        """A single stage: half of the questions from the training share of the bank, half of them synthetic.

        With the bank's questions alone, PPO improves the level, but answers with facts outside the bank get worse.
        """
        # The range before `MADE_UP_IDS`, of the same length, draws from the bank.
        count = len(MADE_UP_IDS)
        return (CurriculumStage("all", range(MADE_UP_IDS.start - count, MADE_UP_IDS.stop), ("one",)),)

    def kind_of(self, task_id: int) -> str:
        """The kind of the question with this id."""
        return question_at(task_id, task_id).kind

    def practice(self, observation: Any, random: Random, count: int) -> list[Reply]:
        """Replies to the same question, also at other levels."""
        return practice(observation, random, count)

    def slip(self, reply: Reply, random: Random) -> str:
        """A wrong label, a repeated answer, and format errors of other games."""
        return slip(reply, random)

    def synthetic(self, environment: TextEnvironment, prompt: Prompt, random: Random) -> Prompt:
        """A synthetic question, made from that of `prompt`."""
        assert isinstance(environment, StrictbotEnvironment)
        return environment.prompt_of(prompt.agent, imagined(prompt.observation, random))

    def vocabulary(self) -> list[str]:
        """The words of all questions and answers."""
        return [*bank.vocabulary(), *(word for text in texts() for word in text.split(" "))]

    def preference_pairs(self, prompts: Sequence[Prompt], count: int, random: Random) -> list[PairRow]:
        """Pairs that differ in level, fact, length or abuse; see `castaway.envs.strictbot.pairs`."""
        return preference_pairs(prompts, count, random)

    def writing_task(self, environment: TextEnvironment) -> Commission:
        """Requests for exercises of every kind; see `castaway.envs.strictbot.commission`."""
        assert isinstance(environment, StrictbotEnvironment)
        return Commission(environment)

    def pair_groups(self, messages: Sequence[Message], chosen: str, rejected: str) -> Mapping[str, str]:
        """Kind and family of the question, and what is wrong with the rejected answer."""
        return pair_group(messages, chosen, rejected)

    def fits(self, answers: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        """How well each answer suits its question, 0 to 1; see `castaway.envs.strictbot.pairs`."""
        return fits(answers)

    def report(self, outcomes: Sequence[Outcome], truncated: Sequence[bool]) -> dict[str, float]:
        """Figures on levels, facts and abuse, in known and in new families; see `castaway.envs.strictbot.report`."""
        return report(outcomes, truncated)
