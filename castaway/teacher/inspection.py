"""Looking at a teacher's server before training depends on it: what it says, and how fast it says it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import quantiles
from time import perf_counter
from typing import Any

from castaway.tasks.environment import Message, Prompt, TextEnvironment
from castaway.tasks.reply import Reply
from castaway.tasks.task import Task
from castaway.teacher.answer import answer_schema, parse_answer
from castaway.teacher.base import Attempt
from castaway.teacher.chat_client import ChatClient, Endpoint, ServerFault
from castaway.teacher.question import question

SMOKE_ID = 900_000_001


def smoke_attempts(task: Task[Any], environment: TextEnvironment) -> list[Attempt]:
    """Four replies to the first prompt of a game: the expert's action, the same said twice, and two without sense."""
    environment.reset(SMOKE_ID, environment.seats[0])
    prompt = environment.prompts()[0]
    action = task.expert(prompt).action
    written = (action, f"{action} {action}", "DANCE", "I do not know")
    return [Attempt.of(prompt, str(Reply("I think", one))) for one in written]


def distinct_attempts(environment: TextEnvironment, count: int) -> list[Attempt]:
    """So many different situations, each with an answer that is not an action, so that all have to be thought about."""
    found: list[Attempt] = []
    task_id = SMOKE_ID
    while len(found) < count:
        environment.reset(task_id, environment.seats[0])
        while not environment.done and len(found) < count:
            prompts: tuple[Prompt, ...] = environment.prompts()
            found += [Attempt.of(prompt, str(Reply("I think", f"MOVING {len(found)}"))) for prompt in prompts]
            environment.step({})
        task_id += 1
    return found[:count]


@dataclass(frozen=True)
class Speed:
    """How a server did with so many questions open at one time."""

    concurrency: int
    per_second: float
    """Answers that came, whatever they said."""
    median: float
    """Seconds."""
    worst_twentieth: float
    """Seconds that 95 % of the answers took less than."""
    usable: float
    """Share of the answers that are JSON of the right shape."""
    failed: int


def measure_speed(task: Task[Any], endpoint: Endpoint, levels: Sequence[int], count: int) -> list[Speed]:
    """Ask `count` questions about a task at each level of concurrency; none is asked twice."""
    environment, rubric = task.make(), task.rubric()
    messages = [question(rubric, environment.rules, one) for one in distinct_attempts(environment, count * len(levels))]
    found = []
    for number, level in enumerate(levels):
        some = messages[number * count : (number + 1) * count]
        found.append(asyncio.run(_measure(replace(endpoint, concurrency=level), some)))
    return found


async def _measure(endpoint: Endpoint, questions: Sequence[list[Message]]) -> Speed:
    client = ChatClient(endpoint)
    slots = asyncio.Semaphore(endpoint.concurrency)
    schema = answer_schema()

    async def ask(messages: list[Message]) -> tuple[float, str | None]:
        async with slots:
            began = perf_counter()
            try:
                text = await client.complete(messages, schema)
            except ServerFault:
                return perf_counter() - began, None
            return perf_counter() - began, text

    began = perf_counter()
    answers = await asyncio.gather(*(ask(messages) for messages in questions))
    seconds = perf_counter() - began
    await client.close()
    texts = [text for _, text in answers if text is not None]
    took = sorted(one for one, text in answers if text is not None) or [0.0]
    cuts = quantiles(took, n=20, method="inclusive") if len(took) > 1 else took * 19
    usable = sum(_is_answer(text) for text in texts) / max(1, len(texts))
    return Speed(
        concurrency=endpoint.concurrency,
        per_second=len(texts) / seconds,
        median=cuts[9],
        worst_twentieth=cuts[18],
        usable=usable,
        failed=len(answers) - len(texts),
    )


def _is_answer(text: str) -> bool:
    try:
        parse_answer(text)
    except ValueError:
        return False
    return True
