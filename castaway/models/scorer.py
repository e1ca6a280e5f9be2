"""The interface of a reward model, in a module of its own so that importing it loads no model library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from castaway.tasks.environment import Message


class Scorer(Protocol):
    """Anything that scores answers as a reward model does."""

    def score(self, situations: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        """Standardised scores of (messages, answer), in the same order."""
        ...
