"""The embedded teacher: it judges by the rules of the game, needs no server, and is never wrong about legality."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from castaway.tasks.environment import Prompt, Rules, Severity
from castaway.tasks.reply import Reply
from castaway.tasks.verdict import WITHOUT_ACTION, Attempt, Verdict

PENALTIES: dict[Severity, float] = {"form": -0.75, "unknown": -1.5, "forbidden": -1.5, "impossible": -1.0}
"""What a refused action costs the student, on the scale of `castaway.tasks.verdict`."""
# Who only misspelt an action knew what it wanted; who wanted the impossible reasoned wrongly.
REASONING_STANDS: tuple[Severity, ...] = ("form", "unknown")  # where it is kept above the corrected action
NO_REASONING = -0.3
NO_ACTION = -1.0
BLUNDER = -2.0
SHORTFALL = -2.0  # for the worst of several legal moves; see `castaway.tasks.task.Task.shortfall`
GIBBERISH = -4.0


@dataclass(frozen=True, slots=True)
class Corrector:
    """Who corrects legal moves, and which of them."""

    expert: Callable[[Prompt], Reply]  # a competent player, as `castaway.tasks.task.Task.expert`
    every_move: bool = False
    """Say of each move what the expert plays, as DAgger does (Ross, Gordon and Bagnell 2011, arXiv:1011.0686), also
    where that is the student's own: whoever learns from its mistakes alone learns to do otherwise everywhere. False:
    correct only what the rules call a mistake."""
    shortfall: Callable[[Prompt, str], float | None] = lambda prompt, action: None
    """As `castaway.tasks.task.Task.shortfall`; where it is not known, each move but the expert's own counts as worse,
    and costs nothing."""


class RulesTeacher:
    """A `Teacher` made of an environment's `Rules`; without a corrector it only punishes mistakes among legal moves."""

    def __init__(self, rules: Rules, corrector: Corrector | None = None) -> None:
        self._rules = rules
        self._corrector = corrector
        self.counts: Mapping[str, int] = {}

    def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        return [self._judge(attempt) for attempt in attempts]

    def _judge(self, attempt: Attempt) -> Verdict:
        reply, observation = attempt.reply, attempt.prompt.observation
        if not reply.action:
            return self._without_action(attempt)
        if refusal := self._rules.refusal(observation, reply.action):
            action = self._rules.repair(observation, reply.action)
            penalty = PENALTIES[refusal.severity]
            stands = reply.reasoning and refusal.severity in REASONING_STANDS
            reasoning = "" if stands else self._rules.reason(observation, action)
            return Verdict(False, action, penalty, refusal.sentence, reasoning, source="rules")
        blunder = self._rules.blunder(observation, reply.action)
        penalty, critique = 0.0, ""
        if blunder:
            penalty, critique = BLUNDER, blunder
        elif not reply.reasoning:
            penalty, critique = NO_REASONING, "The REASONING line is missing."
        verdict = Verdict(True, reply.action, penalty, critique, reasoning="", source="rules")
        if self._corrector is None or not (blunder or self._corrector.every_move):
            return verdict
        return self._with_better(attempt, verdict, self._corrector)

    def _with_better(self, attempt: Attempt, verdict: Verdict, corrector: Corrector) -> Verdict:
        """The verdict on a legal move, with the expert's move, if that is a better one or each move is to have one."""
        expert = corrector.expert(attempt.prompt)
        own, short = verdict.action, None
        if corrector.every_move and expert.action != own:
            short = corrector.shortfall(attempt.prompt, own)
        if expert.action == own or short == 0.0:
            if not corrector.every_move:
                return verdict
            why = expert.reasoning if expert.action == own else ""
            return replace(verdict, better=own, reasoning=why or self._rules.reason(attempt.prompt.observation, own))
        if short is not None:
            critique = verdict.critique or f"{expert.action} is better."
            verdict = replace(verdict, penalty=min(verdict.penalty, SHORTFALL * short), critique=critique)
        reasoning = expert.reasoning or self._rules.reason(attempt.prompt.observation, expert.action)
        return replace(verdict, better=expert.action, reasoning=reasoning)

    def _without_action(self, attempt: Attempt) -> Verdict:
        """No ACTION line: the whole text is searched for a meaning; without a word in it, it is gibberish."""
        observation = attempt.prompt.observation
        action = self._rules.repair(observation, attempt.text)
        letters = sum(letter.isascii() and (letter.isalpha() or letter.isspace()) for letter in attempt.text)
        penalty = NO_ACTION if letters * 2 > len(attempt.text) else GIBBERISH
        return Verdict(False, action, penalty, WITHOUT_ACTION, self._rules.reason(observation, action), source="rules")
