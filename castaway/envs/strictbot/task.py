"""STRICTBOT as a task: players, synthetic questions, preference pairs, exercises by a teacher, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from castaway.envs.strictbot.bank import MADE_UP_IDS
from castaway.envs.strictbot.commission import Commission
from castaway.envs.strictbot.environment import StrictbotEnvironment
from castaway.envs.strictbot.pairs import fits, pair_group, preference_pairs
from castaway.envs.strictbot.params import StrictbotParams
from castaway.envs.strictbot.players import demonstrator, expert
from castaway.envs.strictbot.practice import practice, slip
from castaway.envs.strictbot.renderings import language_of
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

    def __init__(self, game: StrictbotParams) -> None:
        """Make the task with the questions and answers of the section's rendering."""
        super().__init__(game)
        self._language = language_of(game.rendering)
        self.makes_synthetic = self._language.synthetic is not None

    def make(self) -> StrictbotEnvironment:
        """A new environment with the rendering and reward weights of the `game` section."""
        return StrictbotEnvironment(self.game)

    def expert(self, prompt: Prompt) -> Reply:
        """The reply of a perfect tutor, which knows the bank."""
        return expert(self._language, prompt)

    def demonstrator(self, random: Random, carelessness: float) -> Player:
        """An imperfect tutor; see `castaway.envs.strictbot.players`."""
        return demonstrator(self._language, random, carelessness)

    def curriculum(self, episodes: int) -> tuple[CurriculumStage, ...]:
        """A single stage with questions from the training share of the bank and as many synthetic ones, if there are.

        With the bank's questions alone, PPO improves the level of a tiny model, but its answers with facts outside the
        bank get worse.
        """
        # The range before `MADE_UP_IDS`, of the same length, draws from the bank.
        first = MADE_UP_IDS.start - len(MADE_UP_IDS)
        last = MADE_UP_IDS.stop if self.makes_synthetic else MADE_UP_IDS.start
        return (CurriculumStage("all", range(first, last), ("one",)),)

    def kind_of(self, task_id: int) -> str:
        """The kind of the question with this id."""
        return self._language.question_at(task_id, task_id).kind

    def practice(self, observation: Any, random: Random, count: int) -> list[Reply]:
        """Replies to the same question, also at other levels."""
        return practice(self._language, observation, random, count)

    def slip(self, reply: Reply, random: Random) -> str:
        """A wrong label, a repeated answer, and format errors of other games."""
        return slip(reply, random)

    def synthetic(self, environment: TextEnvironment, prompt: Prompt, random: Random) -> Prompt:
        """A synthetic question, made from that of `prompt`."""
        assert isinstance(environment, StrictbotEnvironment)
        assert self._language.synthetic is not None, "called only if `makes_synthetic`"
        return environment.prompt_of(prompt.agent, self._language.synthetic.imagined(prompt.observation, random))

    def vocabulary(self) -> list[str]:
        """The words of all questions and answers, if they are to be tokens."""
        if not self._language.whole_words:
            return []
        texts = self._language.answers.texts
        return [*self._language.bank.vocabulary, *(word for text in texts for word in text.split(" "))]

    def preference_pairs(self, prompts: Sequence[Prompt], count: int, random: Random) -> list[PairRow]:
        """Pairs that differ in level, fact, length or abuse; see `castaway.envs.strictbot.pairs`."""
        return preference_pairs(self._language, prompts, count, random)

    def writing_task(self, environment: TextEnvironment) -> Commission:
        """Requests for exercises of every kind; see `castaway.envs.strictbot.commission`."""
        assert isinstance(environment, StrictbotEnvironment)
        return Commission(environment)

    def rubric(self) -> str:
        """What a tutor does and what a blunder is, in the words of the rendering."""
        return self._language.rubric or super().rubric()

    def pair_groups(self, messages: Sequence[Message], chosen: str, rejected: str) -> Mapping[str, str]:
        """Kind and family of the question, and what is wrong with the rejected answer."""
        return pair_group(self._language, messages, chosen, rejected)

    def fits(self, answers: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        """How well each answer suits its question, 0 to 1; see `castaway.envs.strictbot.pairs`."""
        return fits(self._language, answers)

    def report(self, outcomes: Sequence[Outcome], truncated: Sequence[bool]) -> dict[str, float]:
        """Figures on levels, facts and abuse, in known and in new families; see `castaway.envs.strictbot.report`."""
        return report(self._language.bank.new_families, outcomes, truncated)
