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
from castaway.teacher.base import TeacherOutage
from castaway.teacher.cache import AnswerCache, key_of
from castaway.teacher.chat_client import ChatClient, Endpoint, ServerFault
from castaway.teacher.question import asked_again

MOST_REQUESTS = 3
"""Requests for each text that is wanted: what is refused or stood there before is not to be asked for without end."""
ANSWER_TOKENS = 512


class Text(Protocol):
    """What was read of an answer."""

    @property
    def identity(self) -> str:
        """Equal for duplicates."""


Item = TypeVar("Item", bound=Text, covariant=True)


class Commission(Protocol[Item]):
    """What is asked for, by number, and how it is read."""

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


def written(endpoint: Endpoint, cache: AnswerCache, commission: Commission[Item], count: int) -> list[Item]:
    """As many different texts as are wanted, in the order of their requests; fewer where the teacher repeats itself.

    The same answers give the same list, whatever was answered when.

    Raises:
        TeacherOutage: the server does not answer; what it did answer is kept.
    """
    return asyncio.run(_written(replace(endpoint, answer_tokens=ANSWER_TOKENS), cache, commission, count))


async def _written(endpoint: Endpoint, cache: AnswerCache, commission: Commission[Item], count: int) -> list[Item]:
    client = ChatClient(endpoint)
    taken: list[Item] = []
    seen, number = set(commission.known), 0
    try:
        while len(taken) < count and number < MOST_REQUESTS * count:
            wave = range(number, number + count - len(taken))
            number = wave.stop
            texts = await asyncio.gather(*(_text(client, endpoint.model, cache, commission, one) for one in wave))
            faults = [text for text in texts if isinstance(text, ServerFault)]
            if faults:
                raise TeacherOutage(f"{faults[0]}; start it and run the stage again, which goes on where it stopped")
            for one, text in zip(wave, texts, strict=True):
                item = _read(commission, one, str(text))
                if item is not None and item.identity not in seen:
                    seen.add(item.identity)
                    taken.append(item)
    finally:
        await client.close()
    return taken


async def _text(
    client: ChatClient, model: str, cache: AnswerCache, commission: Commission[Any], number: int
) -> str | ServerFault:
    """The answer to a request, kept or new; one that cannot be used is asked for once more, with the reason."""
    messages: Sequence[Message] = commission.request(number)
    try:
        text = await _answer(client, model, cache, messages, commission.schema)
        try:
            commission.read(number, text)
        except ValueError as error:
            again = asked_again(messages, text, str(error))
            text = await _answer(client, model, cache, again, commission.schema)
    except ServerFault as fault:
        return fault
    return text


async def _answer(
    client: ChatClient, model: str, cache: AnswerCache, messages: Sequence[Message], schema: dict[str, Any]
) -> str:
    key = key_of([model, *(message["content"] for message in messages)])
    stored = cache.get([key])
    if key not in stored:
        stored = {key: await client.complete(messages, schema)}
        cache.put(stored)
    return stored[key]


def _read(commission: Commission[Item], number: int, text: str) -> Item | None:
    try:
        return commission.read(number, text)
    except ValueError:
        return None
