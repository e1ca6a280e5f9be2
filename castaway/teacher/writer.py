"""A served teacher that writes: asked for many texts side by side, each kept from the moment that it has come.

A request that was answered once is never sent again, by whichever run: a stage that was killed, or that lost its
server, goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from castaway.tasks.environment import Message
from castaway.tasks.writing import WritingTask, WrittenText
from castaway.teacher.ask import ask, outage, question_key
from castaway.teacher.cache import AnswerCache
from castaway.teacher.chat_client import ChatClient, Endpoint, ServerFault

MOST_REQUESTS = 3
"""Requests for each text that is wanted, at most: some are refused, or are duplicates."""
ANSWER_TOKENS = 512


def written(endpoint: Endpoint, cache: AnswerCache, task: WritingTask, count: int) -> list[WrittenText]:
    """As many different texts as are wanted, in the order of their requests; fewer where the teacher repeats itself.

    The same answers give the same list, whatever was answered when.

    Raises:
        TeacherOutage: the server does not answer; what it did answer is kept.
    """
    return asyncio.run(_written(replace(endpoint, answer_tokens=ANSWER_TOKENS), cache, task, count))


async def _written(endpoint: Endpoint, cache: AnswerCache, task: WritingTask, count: int) -> list[WrittenText]:
    client = ChatClient(endpoint)
    taken: list[WrittenText] = []
    seen, number = set(task.known), 0
    try:
        while len(taken) < count and number < MOST_REQUESTS * count:
            wave = range(number, number + count - len(taken))
            number = wave.stop
            items = await asyncio.gather(*(_item(client, endpoint.model, cache, task, one) for one in wave))
            for item in items:
                if isinstance(item, ServerFault):
                    raise outage(item)
            for item in items:
                if item is not None and not isinstance(item, ServerFault) and item.identity not in seen:
                    seen.add(item.identity)
                    taken.append(item)
    finally:
        await client.close()
    return taken


async def _item(
    client: ChatClient, model: str, cache: AnswerCache, task: WritingTask, number: int
) -> WrittenText | ServerFault | None:
    """What was written for a request, None if it cannot be used; answers come from the cache where it has them."""

    async def complete(messages: Sequence[Message]) -> str:
        key = question_key(model, messages)
        stored = cache.get([key])
        if key not in stored:
            stored = {key: await client.complete(messages, task.schema)}
            cache.put(stored)
        return stored[key]

    try:
        return (await ask(complete, task.request(number), lambda text: task.read(number, text))).item
    except ServerFault as fault:
        # Returned, not raised: the other requests of the wave are to end and to be kept.
        return fault
