"""What everybody who asks a reward model needs to know of it; importing it loads no model library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from castaway.tasks.environment import Message


class Scorer(Protocol):
    """A reward model."""

    def score(self, situations: Sequence[tuple[Sequence[Message], str]]) -> list[float]:
        """Standardised scores of (messages, answer)."""
        ...
