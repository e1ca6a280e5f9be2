"""What these tests ask about."""

from __future__ import annotations

from pathlib import Path

from benchmarks.attempts import distinct_attempts
from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.tasks.registry import read_params, task_of
from castaway.tasks.reply import Reply
from castaway.tasks.verdict import Attempt

ENVIRONMENT = MaroonedEnvironment("skiff", "compact")
RUBRIC = task_of(read_params(Path(__file__).parents[2] / "params.yaml"), "marooned").rubric()
RULES = ENVIRONMENT.rules


def illegal(count: int) -> list[Attempt]:
    """So many different situations, each answered with what is not an action."""
    return distinct_attempts(ENVIRONMENT, count)


def legal(count: int) -> list[Attempt]:
    """The same situations, each answered with an action that stands."""
    found = []
    for attempt in illegal(count):
        action = RULES.legal_actions(attempt.prompt.observation)[0]
        found.append(Attempt.of(attempt.prompt, str(Reply("I may", action))))
    return found
