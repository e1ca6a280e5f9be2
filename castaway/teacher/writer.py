"""A served teacher that writes: asked for many texts side by side, each kept from the moment that it has come.

A request that was answered once is never sent again, by whichever run: a stage that was killed, or that lost its
server, goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from castaway.tasks.environment import Message
from castaway.teacher.ask import ask, outage, question_key
from castaway.teacher.cache import AnswerCache
from castaway.teacher.chat_client import ChatClient, Endpoint, ServerFault

MOST_REQUESTS = 3
"""Requests for each text that is wanted, at most: some are refused, or are duplicates."""
ANSWER_TOKENS = 512


class Text(Protocol):
    """What was read of an answer."""

    @property
    def identity(self) -> str:
        """Equal for duplicates."""


Item = TypeVar("Item", bound=Text, covariant=True)


class WritingTask(Protocol[Item]):
    """Something to be written many times: requests by number, and how an answer to one is read."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of an answer."""

    @property
    def known(self) -> Collection[str]:
        """Identities that are not wanted."""

    def request(self, number: int) -> list[Message]:
        """The messages of one request; no two are the same."""

    def read(self, number: int, text: str) -> Item:
        """What was written; ValueError says in a few words why it cannot be used."""


def written(endpoint: Endpoint, cache: AnswerCache, task: WritingTask[Item], count: int) -> list[Item]:
    """As many different texts as are wanted, in the order of their requests; fewer where the teacher repeats itself.

    The same answers give the same list, whatever was answered when.

    Raises:
        TeacherOutage: the server does not answer; what it did answer is kept.
    """
    return asyncio.run(_written(replace(endpoint, answer_tokens=ANSWER_TOKENS), cache, task, count))


async def _written(endpoint: Endpoint, cache: AnswerCache, task: WritingTask[Item], count: int) -> list[Item]:
    client = ChatClient(endpoint)
    taken: list[Item] = []
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
    client: ChatClient, model: str, cache: AnswerCache, task: WritingTask[Item], number: int
) -> Item | ServerFault | None:
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
