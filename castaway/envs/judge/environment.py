"""An episode of another task, in which a careless player replies and the agent judges each reply.

- Agents: those of the other task, as whose judge the policy answers.
- Seats: `judge`, the seat that the other task's scripts play.
- Actions: an answer of a served teacher (`castaway.teacher.protocol`), one line of JSON; `I cannot tell` is idle.
- Reward: 1 for an answer that the rules would not dispute.
- End: with the other task's episode, in which the verdicts of the rules are executed, whatever the agent says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from castaway.tasks.environment import Outcome, Prompt, Refusal, TextEnvironment
from castaway.tasks.reply import Reply
from castaway.tasks.task import Task
from castaway.tasks.verdict import Attempt, Verdict
from castaway.teacher.agreement import dispute
from castaway.teacher.protocol import answer_text, parse_answer, question
from castaway.teacher.rules import RulesTeacher

SEAT = "judge"
IDLE = "I cannot tell"
RANDOM_ACTION_RATE = 0.5  # of the player whose replies are judged
SHARES = (0.3, 0.15, 0.1, 0.2, 0.2, 0.05)
"""Of its replies: as its demonstrator plays, other moves, without reasoning, with an action that was legal earlier or
is said twice, in a wrong form, gibberish."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the judge is shown, and what the rules say of it."""

    attempt: Attempt
    verdict: Verdict

    @property
    def answer(self) -> str:
        return answer_text(self.verdict, self.attempt.reply.action)


class JudgingRules:
    def __init__(self, game: TextEnvironment) -> None:
        self._game = game

    def refusal(self, observation: Judged, action: str) -> Refusal | None:
        if action == IDLE:
            return None
        try:
            answer = parse_answer(action)
        except ValueError as error:
            return Refusal("form", f"That is no verdict: {error}.")
        refused = self._game.rules.refusal(observation.attempt.prompt.observation, answer.action)
        if refused and not observation.verdict.valid:
            return Refusal("impossible", f"The corrected action is not legal: {refused.sentence}")
        return None

    def legal_actions(self, observation: Judged) -> tuple[str, ...]:
        return (observation.answer,)

    def repair(self, observation: Judged, text: str) -> str:
        return observation.answer

    def reason(self, observation: Judged, action: str) -> str:
        return "by the rules"

    def blunder(self, observation: Judged, action: str) -> str:
        """What the rules would dispute."""
        if action == IDLE:
            return "There is no verdict."
        disputed = dispute(parse_answer(action), observation.verdict)
        return f"It differs from the rules: {disputed.kind}." if disputed else ""


class JudgingEnvironment(TextEnvironment):
    name = "judge"
    seats = (SEAT,)
    idle = IDLE

    def __init__(self, task: Task[Any]) -> None:
        self._task, self._game = task, task.make()
        self.agents = self._game.agents
        self.rules, self.judged_rules = JudgingRules(self._game), self._game.rules
        self._teacher, self._rubric = RulesTeacher(self._game.rules), task.rubric()

    def reset(self, task_id: int, seat: str) -> None:
        if task_id < 0 or seat != SEAT:
            raise ValueError(f"there is no episode {task_id} with seat {seat!r}; the seat is {SEAT!r}")
        self._game.reset(task_id, self._task.scripted_seat)
        self._random = Random(task_id)
        self._player = self._task.demonstrator(self._random, RANDOM_ACTION_RATE)
        self._earlier: dict[str, None] = {}
        self._turns = self._agreed = 0
        self._prompts = self._asked()

    def _asked(self) -> tuple[Prompt, ...]:
        return tuple(self._question(prompt) for prompt in self._game.prompts())

    def _question(self, prompt: Prompt) -> Prompt:
        attempt = Attempt.of(prompt, self._said(prompt))
        (verdict,) = self._teacher.judge([attempt])
        messages = tuple(question(self._rubric, self._game.rules, attempt))
        return Prompt(prompt.agent, prompt.role, messages, Judged(attempt, verdict))

    def _said(self, prompt: Prompt) -> str:
        """A reply such as policies in training write."""
        random, reply, rules = self._random, self._player(prompt), self._game.rules
        legal = rules.legal_actions(prompt.observation)
        illegal = [*(one for one in self._earlier if one not in legal), f"{reply.action}{reply.action}"]
        self._earlier |= dict.fromkeys(legal)
        said = (
            str(reply),
            str(random.choice(self._task.practice(prompt.observation, random, 4) or [reply])),
            str(Reply("", reply.action)),
            str(Reply(reply.reasoning, random.choice(illegal))),
            self._task.slip(reply, random),
            "".join(random.sample(str(reply), len(str(reply)))),
        )
        return random.choices(said, SHARES)[0]

    def prompts(self) -> tuple[Prompt, ...]:
        return self._prompts

    def step(self, actions: Mapping[str, str]) -> dict[str, float]:
        if self.done:
            raise ValueError("the episode is over: reset before the next step")
        rewards = dict.fromkeys(self.agents, 0.0)
        for prompt in self._prompts:
            answer = actions.get(prompt.agent, IDLE)
            stands = not self.rules.refusal(prompt.observation, answer)
            rewards[prompt.agent] = float(stands and not self.rules.blunder(prompt.observation, answer))
            self._turns, self._agreed = self._turns + 1, self._agreed + int(rewards[prompt.agent])
        self._game.step({prompt.agent: prompt.observation.verdict.action for prompt in self._prompts})
        self._prompts = self._asked()
        return rewards

    @property
    def done(self) -> bool:
        return self._game.done

    def outcome(self) -> Outcome:
        """Success: the rules would dispute none of the answers."""
        share = self._agreed / self._turns
        return Outcome(share == 1, f"{self._agreed} of {self._turns} verdicts as the rules", {"score": share})

    def snapshot(self) -> dict[str, Any]:
        return {"judged": self._turns, "agreed": self._agreed, "game": self._game.snapshot()}
