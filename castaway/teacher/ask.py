"""What every question to a served teacher has in common: its key in the cache, one retry, and how a run is stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from castaway.tasks.environment import Message
from castaway.teacher.base import TeacherOutage
from castaway.teacher.cache import key_of
from castaway.teacher.chat_client import ServerFault
from castaway.teacher.question import asked_again

Item = TypeVar("Item")
Refused = Literal["asked again", "unusable"]
"""What happens after an answer that cannot be used: the question is asked once more, or given up."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[Item]):
    """The last answer to a question."""

    text: str
    item: Item | None
    """What was read of it; None if it cannot be used."""


def question_key(model: str, messages: Sequence[Message]) -> str:
    """The key of a question in the cache: an answer depends on the model and on all that it is shown."""
    return key_of([model, *(message["content"] for message in messages)])


async def ask(
    complete: Callable[[Sequence[Message]], Awaitable[str]],
    messages: Sequence[Message],
    read: Callable[[str], Item],
    on_refused: Callable[[Refused], None] = lambda what: None,
) -> Answered[Item]:
    """Ask, and ask once more with the reason if the answer cannot be used.

    Args:
        complete: gives the text of the model's answer to some messages.
        messages: the question.
        read: reads an answer; its ValueError says in a few words why the answer cannot be used.
        on_refused: called after each answer that cannot be used.

    Raises:
        ServerFault: `complete` raised it.
    """
    text = await complete(messages)
    try:
        return Answered(text, read(text))
    except ValueError as error:
        on_refused("asked again")
        text = await complete(asked_again(messages, text, str(error)))
    try:
        return Answered(text, read(text))
    except ValueError:
        on_refused("unusable")
        return Answered(text, None)


def outage(fault: ServerFault) -> TeacherOutage:
    """The error that stops a run whose teacher does not answer."""
    return TeacherOutage(f"{fault}; start it and run the stage again, which goes on where it stopped")
