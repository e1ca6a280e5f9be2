"""The embedded teacher: it judges by the rules of the game, needs no server, and is never wrong about legality."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from castaway.tasks.environment import Prompt, Rules, Severity
from castaway.tasks.reply import Reply
from castaway.teacher.base import Attempt, Verdict


@dataclass(frozen=True, slots=True)
class Price:
    """What a refused action costs the student."""

    penalty: float
    """On the scale of `castaway.teacher.base`."""
    reasoning_stands: bool
    """Whether the student's reasoning is kept above the corrected action."""


# Who only misspelt an action knew what it wanted; who wanted the impossible reasoned wrongly.
PRICES: dict[Severity, Price] = {
    "form": Price(-0.75, reasoning_stands=True),
    "unknown": Price(-1.5, reasoning_stands=True),
    "forbidden": Price(-1.5, reasoning_stands=False),
    "impossible": Price(-1.0, reasoning_stands=False),
}
NO_REASONING = -0.3
NO_ACTION = -1.0
BLUNDER = -2.0
GIBBERISH = -4.0


Expert = Callable[[Prompt], Reply]
"""A competent player, as `castaway.tasks.task.Task.expert`."""


class RulesTeacher:
    """A `Teacher` made of an environment's `Rules`."""

    def __init__(self, rules: Rules, expert: Expert | None = None) -> None:
        """Judge by these rules.

        Args:
            rules: of the game.
            expert: a competent player, whose replies correct legal mistakes; None: these are punished alone.
        """
        self._rules = rules
        self._expert = expert
        self.counts: Mapping[str, int] = {}

    def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        """One verdict for each attempt."""
        return [self._judge(attempt) for attempt in attempts]

    def _judge(self, attempt: Attempt) -> Verdict:
        reply = attempt.reply
        observation = attempt.prompt.observation
        if not reply.action:
            return self._without_action(attempt)
        refusal = self._rules.refusal(observation, reply.action)
        if refusal:
            action = self._rules.repair(observation, reply.action)
            price = PRICES[refusal.severity]
            stands = reply.reasoning and price.reasoning_stands
            reasoning = "" if stands else self._rules.reason(observation, action)
            return _put_right(action, price.penalty, refusal.sentence, reasoning)
        blunder = self._rules.blunder(observation, reply.action)
        if blunder:
            return self._with_better(attempt, _allowed(reply.action, BLUNDER, blunder))
        if not reply.reasoning:
            return _allowed(reply.action, NO_REASONING, "The REASONING line is missing.")
        return _allowed(reply.action, 0.0, "")

    def _with_better(self, attempt: Attempt, verdict: Verdict) -> Verdict:
        """The verdict on a legal mistake, with the expert's move instead, if that is another one."""
        found = self._expert(attempt.prompt) if self._expert else None
        if found is None or found.action == verdict.action:
            return verdict
        reasoning = found.reasoning or self._rules.reason(attempt.prompt.observation, found.action)
        return replace(verdict, better=found.action, reasoning=reasoning)

    def _without_action(self, attempt: Attempt) -> Verdict:
        """No ACTION line: the whole text is searched for a meaning; without a word in it, it is gibberish."""
        observation = attempt.prompt.observation
        action = self._rules.repair(observation, attempt.text)
        letters = sum(letter.isascii() and (letter.isalpha() or letter.isspace()) for letter in attempt.text)
        penalty = NO_ACTION if letters * 2 > len(attempt.text) else GIBBERISH
        critique = "The answer has no line that begins with ACTION: and an action."
        return _put_right(action, penalty, critique, self._rules.reason(observation, action))


def _allowed(action: str, penalty: float, critique: str) -> Verdict:
    """The student's own action is executed."""
    return Verdict(valid=True, action=action, penalty=penalty, critique=critique, reasoning="", source="rules")


def _put_right(action: str, penalty: float, critique: str, reasoning: str) -> Verdict:
    """Another action is executed in the place of the student's."""
    return Verdict(valid=False, action=action, penalty=penalty, critique=critique, reasoning=reasoning, source="rules")
