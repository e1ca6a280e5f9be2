"""The embedded teacher: it judges by the rules of the game, needs no server, and is never wrong about legality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from castaway.tasks.environment import RefusalKind, Rules
from castaway.tasks.reply import Reply, parse_reply
from castaway.teacher.base import Attempt, Verdict

PENALTIES: dict[RefusalKind, float] = {
    "form": -0.75,
    "verb": -1.5,
    "role": -1.5,
    "phase": -1.5,
    "situation": -1.0,
    "energy": -1.0,
}
NO_REASONING = -0.3
NO_ACTION = -1.0
BLUNDER = -2.0
GIBBERISH = -4.0


class RulesTeacher:
    """A `Teacher` made of an environment's `Rules`."""

    def __init__(self, rules: Rules) -> None:
        """Judge by these rules."""
        self._rules = rules
        self.counts: Mapping[str, int] = {}

    def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        """One verdict for each attempt."""
        return [self._judge(attempt) for attempt in attempts]

    def _judge(self, attempt: Attempt) -> Verdict:
        reply = parse_reply(attempt.text)
        observation = attempt.prompt.observation
        if not reply.action:
            return self._without_action(attempt, reply)
        refusal = self._rules.refusal(observation, reply.action)
        if refusal:
            action = self._rules.repair(observation, reply.action)
            # Who only mistyped knew what it wanted; who wanted the impossible reasoned wrongly.
            stands = reply.reasoning and refusal.kind in ("form", "verb")
            reasoning = "" if stands else self._rules.reason(observation, action)
            return Verdict(False, action, PENALTIES[refusal.kind], refusal.sentence, reasoning, "rules")
        blunder = self._rules.blunder(observation, reply.action)
        if blunder:
            return Verdict(True, reply.action, BLUNDER, blunder, "", "rules")
        if not reply.reasoning:
            return Verdict(True, reply.action, NO_REASONING, "The REASONING line is missing.", "", "rules")
        return Verdict(True, reply.action, 0.0, "", "", "rules")

    def _without_action(self, attempt: Attempt, reply: Reply) -> Verdict:
        """No ACTION line: the whole text is searched for a meaning; without a word in it, it is gibberish."""
        observation = attempt.prompt.observation
        action = self._rules.repair(observation, attempt.text)
        letters = sum(letter.isascii() and (letter.isalpha() or letter.isspace()) for letter in attempt.text)
        penalty = NO_ACTION if letters * 2 > len(attempt.text) else GIBBERISH
        critique = "The answer has no line that begins with ACTION: and an action."
        return Verdict(False, action, penalty, critique, self._rules.reason(observation, action), "rules")
