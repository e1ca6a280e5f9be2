"""The embedded teacher: it judges by the rules of the game, needs no server, and is never wrong about legality."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from castaway.tasks.environment import Prompt, Rules, Severity
from castaway.tasks.reply import Reply
from castaway.teacher.base import WITHOUT_ACTION, Attempt, Verdict


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
SHORTFALL = -2.0
"""For the worst of several legal moves; see `castaway.tasks.task.Task.shortfall`."""
GIBBERISH = -4.0


Expert = Callable[[Prompt], Reply]
"""A competent player, as `castaway.tasks.task.Task.expert`."""


@dataclass(frozen=True, slots=True)
class Corrector:
    """Who corrects legal moves, and which of them."""

    expert: Expert
    every_move: bool = False
    """Say of each move what the expert plays, as DAgger does (Ross, Gordon and Bagnell 2011, arXiv:1011.0686), also
    where that is the student's own: whoever learns from its mistakes alone learns to do otherwise everywhere. False:
    correct only what the rules call a mistake."""
    shortfall: Callable[[Prompt, str], float | None] = lambda prompt, action: None
    """As `castaway.tasks.task.Task.shortfall`; where it is not known, each move but the expert's own counts as worse,
    and costs nothing."""


class RulesTeacher:
    """A `Teacher` made of an environment's `Rules`."""

    def __init__(self, rules: Rules, corrector: Corrector | None = None) -> None:
        """Judge by these rules.

        Args:
            rules: of the game.
            corrector: corrects legal moves; None: mistakes among them are punished alone.
        """
        self._rules = rules
        self._corrector = corrector
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
            verdict = _allowed(reply.action, BLUNDER, blunder)
        elif not reply.reasoning:
            verdict = _allowed(reply.action, NO_REASONING, "The REASONING line is missing.")
        else:
            verdict = _allowed(reply.action, 0.0, "")
        if self._corrector is None or not (blunder or self._corrector.every_move):
            return verdict
        return self._with_better(attempt, verdict, self._corrector)

    def _with_better(self, attempt: Attempt, verdict: Verdict, corrector: Corrector) -> Verdict:
        """The verdict on a legal move, with the expert's move, if that is a better one or each move is to have one."""
        found = corrector.expert(attempt.prompt)
        own, short = verdict.action, None
        if corrector.every_move and found.action != own:
            short = corrector.shortfall(attempt.prompt, own)
        if found.action == own or short == 0.0:
            if not corrector.every_move:
                return verdict
            why = found.reasoning if found.action == own else ""
            return replace(verdict, better=own, reasoning=why or self._rules.reason(attempt.prompt.observation, own))
        if short is not None:
            critique = verdict.critique or f"{found.action} is better."
            verdict = replace(verdict, penalty=min(verdict.penalty, SHORTFALL * short), critique=critique)
        reasoning = found.reasoning or self._rules.reason(attempt.prompt.observation, found.action)
        return replace(verdict, better=found.action, reasoning=reasoning)

    def _without_action(self, attempt: Attempt) -> Verdict:
        """No ACTION line: the whole text is searched for a meaning; without a word in it, it is gibberish."""
        observation = attempt.prompt.observation
        action = self._rules.repair(observation, attempt.text)
        letters = sum(letter.isascii() and (letter.isalpha() or letter.isspace()) for letter in attempt.text)
        penalty = NO_ACTION if letters * 2 > len(attempt.text) else GIBBERISH
        return _put_right(action, penalty, WITHOUT_ACTION, self._rules.reason(observation, action))


def _allowed(action: str, penalty: float, critique: str) -> Verdict:
    """The student's own action is executed."""
    return Verdict(valid=True, action=action, penalty=penalty, critique=critique, reasoning="", source="rules")


def _put_right(action: str, penalty: float, critique: str, reasoning: str) -> Verdict:
    """Another action is executed in the place of the student's."""
    return Verdict(valid=False, action=action, penalty=penalty, critique=critique, reasoning=reasoning, source="rules")
