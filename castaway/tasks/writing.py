"""What a task implements so that a served teacher can write training data: numbered requests, and reading answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from castaway.tasks.environment import Message, Prompt
from castaway.tasks.reply import Reply


class WrittenText(Protocol):
    """The training data read from one answer: a situation with a reply, and preference pairs."""

    @property
    def identity(self) -> str:
        """A key that is the same for duplicates."""

    @property
    def prompt(self) -> Prompt:
        """The situation."""

    @property
    def reply(self) -> Reply:
        """A good reply to it."""

    @property
    def pairs(self) -> Sequence[tuple[tuple[Message, ...], str, str]]:
        """Preference pairs, in the form of `Task.preference_pairs`."""


class WritingTask(Protocol):
    """Makes numbered requests for a teacher, and reads its answers."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema that an answer must match."""

    @property
    def known(self) -> Collection[str]:
        """Identities to reject, because the task has these situations already."""

    def request(self, number: int) -> list[Message]:
        """The chat messages of request `number`; no two requests are the same."""

    def read(self, number: int, text: str) -> WrittenText:
        """Read the answer to request `number`.

        Raises:
            ValueError: the answer cannot be used; the message says why in a few words that the teacher can be shown.
        """
