"""STRICTBOT as a text environment.

- Agents: forty tutors, each with a question of its own.
- Seats: `one` (the first tutor alone: one question in, one answer out) and `all` (every tutor at once, for data).
- Actions: any civil line of text, see `castaway.envs.strictbot.teaching`; `I do not know` is the idle one.
- Reward: the weighed terms of `castaway.envs.strictbot.reward`; an idle tutor earns nothing.
- End: after the one turn. Success is the level that the question deserves, as an independent judge reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

from castaway.envs.strictbot.imagination import question_at
from castaway.envs.strictbot.judge import produced_levels
from castaway.envs.strictbot.observation import Observation, messages
from castaway.envs.strictbot.params import StrictbotParams
from castaway.envs.strictbot.report import details_of
from castaway.envs.strictbot.reward import terms, weighed
from castaway.envs.strictbot.teaching import IDLE, StrictbotRules
from castaway.tasks.environment import Outcome, Prompt, TextEnvironment

CLASS = 40
"""Tutors: enough for the data of a task whose episodes are long to be a matter of few episodes here as well."""


class StrictbotEnvironment(TextEnvironment):
    """One round of questions at a time; see the module."""

    name = "strictbot"
    agents = tuple(f"tutor_{number:02d}" for number in range(1, CLASS + 1))
    seats = ("one", "all")
    idle = IDLE

    def __init__(self, params: StrictbotParams) -> None:
        """Questions shown and answers paid as the parameters say."""
        self.rules = StrictbotRules()
        self._params = params

    def reset(self, task_id: int, seat: str) -> None:
        """Hand out the questions of `task_id`."""
        if task_id < 0 or seat not in self.seats:
            raise ValueError(f"there is no episode {task_id} with seat {seat!r}; seats are {', '.join(self.seats)}")
        self._seat = seat
        places = [task_id] if seat == "one" else range(task_id * CLASS, task_id * CLASS + CLASS)
        self._questions = {
            agent: question_at(task_id, place) for agent, place in zip(self.agents, places, strict=False)
        }
        self._answers: dict[str, str] = {}
        self._terms: dict[str, dict[str, float]] = {}

    def prompts(self) -> tuple[Prompt, ...]:
        """Every tutor of the seat, once."""
        if self.done:
            return ()
        return tuple(
            self.prompt_of(agent, Observation(question.asked, question.fact))
            for agent, question in self._questions.items()
        )

    def prompt_of(self, agent: str, observation: Observation) -> Prompt:
        """What a tutor with this question is shown."""
        return Prompt(agent, "tutor", messages(observation, self._params.rendering), observation)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        """Hear the answers and pay them."""
        if self.done:
            raise ValueError("the episode is over: reset before the next step")
        rewards = dict.fromkeys(self.agents, 0.0)
        for agent, question in self._questions.items():
            answer = actions.get(agent, IDLE)
            if self.rules.refusal(Observation(question.asked, question.fact), answer):
                answer = IDLE
            self._answers[agent] = answer
            self._terms[agent] = terms(answer, question, self._params)
            rewards[agent] = 0.0 if answer == IDLE else weighed(self._terms[agent], self._params)
        return rewards

    @property
    def done(self) -> bool:
        """Whether everybody has answered."""
        return bool(self._answers)

    def outcome(self) -> Outcome:
        """Success is that every answer has the level that its question deserves; details are means over the tutors.

        The label `family`, the question's, stands in the seat `one` alone: in `all` every tutor has another question.
        """
        asked = [(self._answers[agent], question) for agent, question in self._questions.items()]
        levels = produced_levels([(answer, question.fact) for answer, question in asked])
        rows = [
            details_of(answer, question, level, found)
            for (answer, question), level, found in zip(asked, levels, self._terms.values(), strict=True)
        ]
        right = sum(level == question.level for (_, question), level in zip(asked, levels, strict=True))
        details = {name: mean(row[name] for row in rows) for name in rows[0]}
        labels = {"family": asked[0][1].family} if self._seat == "one" else {}
        return Outcome(right == len(rows), f"{right} of {len(rows)} as strict as deserved", details, labels)

    def snapshot(self) -> dict[str, Any]:
        """The questions with what the bank knows about them, and the answers with what they earned by term."""
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
