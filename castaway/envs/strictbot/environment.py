"""STRICTBOT as a text environment.

- Agents: forty tutors, each with its own question.
- Seats: `one` (only the first tutor: one question, one answer) and `all` (all tutors at once, to make data).
- Actions: any civil line of text, see `castaway.envs.strictbot.teaching`; `I do not know` is the idle action.
- Reward: the weighted sum of the terms of `castaway.envs.strictbot.reward`; 0 for the idle action.
- End: after one turn. Success means that the answer has the level that the question deserves, according to an
  independent classifier (`castaway.envs.strictbot.judge`).
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

from castaway.envs.strictbot.observation import Observation
from castaway.envs.strictbot.params import StrictbotParams
from castaway.envs.strictbot.renderings import language_of
from castaway.envs.strictbot.report import details_of
from castaway.envs.strictbot.reward import terms, weighed
from castaway.envs.strictbot.teaching import IDLE, StrictbotRules
from castaway.tasks.environment import Outcome, Prompt, TextEnvironment

CLASS = 40
"""Number of tutors. With one turn each in the seat `all`, few episodes give as much data as those of a long game."""


class StrictbotEnvironment(TextEnvironment):
    """The environment; it holds one round of questions. See the module docstring."""

    name = "strictbot"
    agents = tuple(f"tutor_{number:02d}" for number in range(1, CLASS + 1))
    seats = ("one", "all")
    idle = IDLE

    def __init__(self, params: StrictbotParams) -> None:
        """Make an environment with this rendering and these reward weights."""
        self.language = language_of(params.rendering)
        self.rules = StrictbotRules(self.language)
        self._params = params

    def reset(self, task_id: int, seat: str) -> None:
        """Give each tutor its question of `task_id`.

        Raises:
            ValueError: the id is negative or the seat unknown.
        """
        if task_id < 0 or seat not in self.seats:
            raise ValueError(f"there is no episode {task_id} with seat {seat!r}; seats are {', '.join(self.seats)}")
        self._seat = seat
        places = [task_id] if seat == "one" else range(task_id * CLASS, task_id * CLASS + CLASS)
        self._questions = {
            agent: self.language.question_at(task_id, place) for agent, place in zip(self.agents, places, strict=False)
        }
        self._answers: dict[str, str] = {}
        self._terms: dict[str, dict[str, float]] = {}

    def prompts(self) -> tuple[Prompt, ...]:
        """A prompt for every tutor of the seat; none after the only turn."""
        if self.done:
            return ()
        return tuple(
            self.prompt_of(agent, Observation(question.asked, question.fact))
            for agent, question in self._questions.items()
        )

    def prompt_of(self, agent: str, observation: Observation) -> Prompt:
        """The prompt of a tutor with this question."""
        return Prompt(agent, "tutor", self.language.prompts.messages(observation), observation)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        """Take the answers, end the episode, and return the rewards.

        Raises:
            ValueError: the episode is over.
        """
        if self.done:
            raise ValueError("the episode is over: reset before the next step")
        rewards = dict.fromkeys(self.agents, 0.0)
        for agent, question in self._questions.items():
            answer = actions.get(agent, IDLE)
            if self.rules.refusal(Observation(question.asked, question.fact), answer):
                answer = IDLE
            self._answers[agent] = answer
            self._terms[agent] = terms(answer, question, self._params, self.language)
            rewards[agent] = 0.0 if answer == IDLE else weighed(self._terms[agent], self._params)
        return rewards

    @property
    def done(self) -> bool:
        """Whether the answers have been given."""
        return bool(self._answers)

    def outcome(self) -> Outcome:
        """Success means that every answer has the level that its question deserves; details are means over the tutors.

        Only the seat `one` has the label `family`, since in `all` the tutors have different questions.
        """
        asked = [(self._answers[agent], question) for agent, question in self._questions.items()]
        levels = self.language.judge.produced_levels([(answer, question.fact) for answer, question in asked])
        rows = [
            details_of(self.language, answer, question, level, found)
            for (answer, question), level, found in zip(asked, levels, self._terms.values(), strict=True)
        ]
        right = sum(level == question.level for (_, question), level in zip(asked, levels, strict=True))
        details = {name: mean(row[name] for row in rows) for name in rows[0]}
        labels = {"family": asked[0][1].family} if self._seat == "one" else {}
        return Outcome(right == len(rows), f"{right} of {len(rows)} as strict as deserved", details, labels)

    def snapshot(self) -> dict[str, Any]:
        """The questions with all that the bank knows about them, and the answers with their reward terms."""
        return {
            "questions": {
                agent: {
                    "asked": question.asked,
                    "fact": question.fact,
                    "kind": question.kind,
                    "family": question.family,
                    "level": question.level,
                    "answer": self._answers.get(agent, ""),
                    "terms": dict(self._terms.get(agent, {})),
                }
                for agent, question in self._questions.items()
            }
        }
