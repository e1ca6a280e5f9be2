"""The contract of a teacher.

A teacher sees what the student saw (the prompt with its observation, never the hidden state) and what the student
wrote, and answers with a `Verdict`. Implement `Teacher` to bring your own.

Penalties are on one scale, 0 down to -5:

| what the student did | penalty |
|---|---|
| a good move in good form | 0 |
| a minor flaw: a legal action, but no reasoning | -0.3 |
| wrong form: no action line, misspelt arguments | -0.5 to -1 |
| no action of the game, a forbidden or an impossible one | -1 to -2 |
| a legal move, though others are better | 0 to -2 |
| a strategic blunder, though legal | -2 to -3 |
| gibberish | -3 to -5 |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from castaway.config.errors import CastawayError
from castaway.tasks.environment import Prompt
from castaway.tasks.reply import Reply, parse_reply

WORST_PENALTY = -5.0
WITHOUT_ACTION = "The answer has no line that begins with ACTION: and an action."


@dataclass(frozen=True, slots=True)
class Attempt:
    prompt: Prompt
    text: str
    reply: Reply  # the parts of the text, parsed once and carried along

    @classmethod
    def of(cls, prompt: Prompt, text: str) -> Self:
        return cls(prompt, text, parse_reply(text))


@dataclass(frozen=True, slots=True)
class Opinion:
    """How a model or the rules judged an attempt, for a report on where they differ."""

    valid: bool
    action: str
    penalty: float
    remark: str


@dataclass(frozen=True, slots=True)
class Dispute:
    """A model and the rules judged one attempt differently."""

    kind: str  # what about, see `castaway.teacher.agreement`
    model: Opinion
    rules: Opinion


@dataclass(frozen=True, slots=True)
class Verdict:
    valid: bool  # whether the student's own action is legal; if so it is executed as it is
    action: str  # what is to be executed: the student's action if valid, else the nearest legal one, as typed
    penalty: float  # 0 for a good move down to -5 for gibberish
    critique: str  # one sentence on what is wrong, or empty
    reasoning: str  # what to reason instead, where the student's is missing or led astray; otherwise empty
    source: str  # who judged: `rules`, or the name of a model
    dispute: Dispute | None = None  # where a model was asked and differed from the rules, whoever prevailed
    better: str = ""  # for a legal action, the one that the teacher would play; the student's own is executed


class TeacherOutage(CastawayError):
    """The teacher does not answer now, and training is not to go on without it; asked again later, it may."""


class Teacher(Protocol):
    """Judges attempts, many at once."""

    @property
    def counts(self) -> Mapping[str, float]:
        """What happened so far, for the record of the run alone: two runs with the same verdicts may differ in it."""

    def judge(self, attempts: Sequence[Attempt]) -> list[Verdict]:
        """One verdict for each attempt, in their order; several threads may ask at once. TeacherOutage if it cannot."""
