"""A circuit breaker: a server that is long out of order is left alone for a while (Nygard, Release It!).

Closed, everything passes. When calls have done nothing but fail for `patience` seconds it opens, and nothing passes.
After `cooling` seconds one call is let through: if that succeeds it closes, if not it stays open for as long again.

Seconds and not a count of failures, because a server that restarts fails a hundred parallel calls at once.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class CircuitBreaker:
    """Watches for a time without any success. It is for one thread."""

    def __init__(self, patience: float, cooling: float, clock: Callable[[], float] = monotonic) -> None:
        """Open after so many seconds of failures alone, for so many seconds."""
        self._patience, self._cooling, self._clock = patience, cooling, clock
        self._failing_since: float | None = None
        self._opened: float | None = None
        self.openings = 0
        """How often it opened."""

    def allow(self) -> bool:
        """Whether a call may be made. When it has cooled down, this lets one through, and no second one beside it."""
        if self._opened is None:
            return True
        if self._clock() - self._opened < self._cooling:
            return False
        self._opened = self._clock()
        return True

    def succeeded(self) -> None:
        """A call came back."""
        self._failing_since = self._opened = None

    def failed(self) -> None:
        """A call failed in a way that speaks of the server, not of the question."""
        now = self._clock()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since >= self._patience:
            self.openings += self._opened is None
            self._opened = now
