"""What a task asks of a teacher that writes: requests by number, and how an answer is read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from castaway.tasks.environment import Message, Prompt
from castaway.tasks.reply import Reply


class WrittenText(Protocol):
    """What was read of an answer: one situation with a reply, and preference pairs."""

    @property
    def identity(self) -> str:
        """Equal for duplicates."""

    @property
    def prompt(self) -> Prompt:
        """The situation."""

    @property
    def reply(self) -> Reply:
        """A good reply to it."""

    @property
    def pairs(self) -> Sequence[tuple[tuple[Message, ...], str, str]]:
        """Rows like those of `Task.preference_pairs`."""


class WritingTask(Protocol):
    """What is asked for, by number, and how it is read."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of an answer."""

    @property
    def known(self) -> Collection[str]:
        """Identities that are not wanted."""

    def request(self, number: int) -> list[Message]:
        """The messages of one request; no two are the same."""

    def read(self, number: int, text: str) -> WrittenText:
        """What was written; ValueError says in a few words why it cannot be used."""
