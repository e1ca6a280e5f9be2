"""Replies for a teacher's server to judge."""

from castaway.tasks.environment import TextEnvironment
from castaway.tasks.reply import Reply
from castaway.tasks.verdict import Attempt

FIRST_ID = 900_000_001


def distinct_attempts(environment: TextEnvironment, count: int) -> list[Attempt]:
    """Different situations, each with an answer that is not an action, so that all have to be thought about."""
    attempts: list[Attempt] = []
    task_id = FIRST_ID
    while len(attempts) < count:
        environment.reset(task_id, environment.seats[0])
        while not environment.done and len(attempts) < count:
            prompts = environment.prompts()
            attempts += [Attempt.of(prompt, str(Reply("I think", f"MOVING {len(attempts)}"))) for prompt in prompts]
            environment.step({})
        task_id += 1
    return attempts[:count]
