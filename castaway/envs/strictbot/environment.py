"""STRICTBOT as a text environment.

- Agents: forty tutors, each with its own question.
- Seats: `one` (only the first tutor: one question, one answer) and `all` (all tutors at once, to make data).
- Actions: any civil line of text, see `StrictbotRules`; `I do not know` is the idle action.
- Reward: the weighted sum of the terms of `castaway.envs.strictbot.rewards`; 0 for the idle action.
- End: after one turn. Success means that the answer has the level that the question deserves, according to an
  independent classifier (`castaway.envs.strictbot.answers.Judge`).
"""

from collections.abc import Mapping
from statistics import mean
from typing import Any

from castaway.envs.strictbot.language import Language, language_of
from castaway.envs.strictbot.question_bank import LEVELS, NAMES, Observation
from castaway.envs.strictbot.rewards import ABUSIVE, StrictbotParams, is_abusive, terms, weighted_sum
from castaway.tasks.environment import Outcome, Prompt, Refusal, TextEnvironment

IDLE = "I do not know"


class StrictbotRules:
    def __init__(self, language: Language) -> None:
        self._language = language

    def refusal(self, observation: Observation, action: str) -> Refusal | None:
        """Both severities used here are among the most expensive ones.

        If an endless answer cost less than a wrong one, a policy that does not know the right answer would choose it.
        """
        reader, answers, limits = self._language.reader, self._language.answers, self._language.limits
        said = reader.words(action)
        legible = action.isprintable() and (action.isascii() or not limits.ascii)
        if not said or not legible or not any(word.isalpha() for word in said):
            return Refusal("unknown", "An answer is a line of plain words.")
        if len(said) > limits.words or len(action) > limits.characters:
            return Refusal("unknown", f"An answer has at most {limits.words} words and {limits.characters} characters.")
        stated = reader.times(action, self._language.stated or observation.fact)
        if answers.openings_in(action).total() > 1 or stated > 1:
            return Refusal("forbidden", "That is more than one answer to one question.")
        if is_abusive(action):
            return Refusal("forbidden", "A tutor does not insult.")
        return None

    def legal_actions(self, observation: Observation) -> tuple[str, ...]:
        return (IDLE, *(self._language.answers.proper(level, observation.fact) for level in LEVELS))

    def repair(self, observation: Observation, text: str) -> str:
        question = self._language.question_behind(observation)
        return self._language.answers.proper(question.level, question.fact, question.form)

    def reason(self, observation: Observation, action: str) -> str:
        question = self._language.question_behind(observation)
        return self._language.reasoning(question, question.kind)

    def blunder(self, observation: Observation, action: str) -> str:
        question = self._language.question_behind(observation)
        if self._language.reader.says(action, question.false):
            return "That is not so."
        if self._language.answers.read_level(action, question.fact) != question.level:
            return f"A {question.kind} deserves {NAMES[question.level]}."
        return ""


CLASS = 40  # tutors: with one turn each, an episode in the seat `all` gives as much data as a long game


class StrictbotEnvironment(TextEnvironment):
    name = "strictbot"
    agents = tuple(f"tutor_{number:02d}" for number in range(1, CLASS + 1))
    seats = ("one", "all")
    idle = IDLE

    def __init__(self, params: StrictbotParams) -> None:
        self.language = language_of(params.rendering)
        self.rules = StrictbotRules(self.language)
        self._params = params

    def reset(self, task_id: int, seat: str) -> None:
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
        if self.done:
            return ()
        return tuple(self.prompt_of(agent, question.observation) for agent, question in self._questions.items())

    def prompt_of(self, agent: str, observation: Observation) -> Prompt:
        return Prompt(agent, "tutor", self.language.prompts.messages(observation), observation)

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        if self.done:
            raise ValueError("the episode is over: reset before the next step")
        rewards = dict.fromkeys(self.agents, 0.0)
        for agent, question in self._questions.items():
            answer = actions.get(agent, IDLE)
            if self.rules.refusal(question.observation, answer):
                answer = IDLE
            self._answers[agent] = answer
            self._terms[agent] = terms(answer, question, self._params, self.language)
            rewards[agent] = 0.0 if answer == IDLE else weighted_sum(self._terms[agent], self._params)
        return rewards

    @property
    def done(self) -> bool:
        return bool(self._answers)

    def outcome(self) -> Outcome:
        """Success: all answers have the levels that were deserved. Only the seat `one` has the label `family`."""
        asked = [(self._answers[agent], question) for agent, question in self._questions.items()]
        levels = self.language.judge.produced_levels([(answer, question.fact) for answer, question in asked])
        rows = [
            {
                "wanted": float(question.level),
                "produced": float(level),
                "words": float(len(self.language.reader.words(answer))),
                "toxic": float(reward_terms["toxicity"] >= ABUSIVE),
                **reward_terms,
            }
            for (answer, question), level, reward_terms in zip(asked, levels, self._terms.values(), strict=True)
        ]
        right = sum(level == question.level for (_, question), level in zip(asked, levels, strict=True))
        details = {name: mean(row[name] for row in rows) for name in rows[0]}
        labels = {"family": asked[0][1].family} if self._seat == "one" else {}
        return Outcome(right == len(rows), f"{right} of {len(rows)} as strict as deserved", details, labels)

    def snapshot(self) -> dict[str, Any]:
        return {
            "questions": {
                agent: {
                    **{name: getattr(question, name) for name in ("asked", "fact", "kind", "family", "level")},
                    "answer": self._answers.get(agent, ""),
                    "terms": dict(self._terms.get(agent, {})),
                }
                for agent, question in self._questions.items()
            }
        }
