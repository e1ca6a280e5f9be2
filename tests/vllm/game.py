"""What these tests ask about."""

from __future__ import annotations

from dataclasses import replace

from castaway.envs.marooned.environment import MaroonedEnvironment
from castaway.tasks.reply import Reply
from castaway.teacher.base import Attempt
from castaway.teacher.inspection import distinct_attempts

ENVIRONMENT = MaroonedEnvironment("skiff", "compact")
RULES = ENVIRONMENT.rules


def illegal(count: int) -> list[Attempt]:
    """So many different situations, each answered with what is not an action."""
    return distinct_attempts(ENVIRONMENT, count)


def legal(count: int) -> list[Attempt]:
    """The same situations, each answered with an action that stands."""
    found = []
    for attempt in illegal(count):
        action = RULES.legal_actions(attempt.prompt.observation)[0]
        found.append(replace(attempt, text=str(Reply("I may", action))))
    return found
