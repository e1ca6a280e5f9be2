"""A server as all environments of a process see it: sessions that are used again, and a breaker for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from threading import Lock
from typing import Any, TypeVar

from castaway.config.errors import CastawayError
from castaway.teacher.chat_client import COOLING_SECONDS, CircuitBreaker, LoopThread, ServerFault, retrying

from castaway_openenv.params import OpenEnvParams
from castaway_openenv.session import Session, fault

Result = TypeVar("Result")


class Server:
    """The server of a `game` section. The thread that talks to it is started with the first question."""

    def __init__(self, game: OpenEnvParams) -> None:
        """Connect to nothing yet."""
        self.game = game
        self.repeats: bool | None = None
        """Whether the same seed gives the same episode; None before it was asked."""
        self._breaker = CircuitBreaker(game.patience_seconds, COOLING_SECONDS)
        self._loop: LoopThread | None = None
        self._idle: list[Session] = []
        self._closing: set[asyncio.Future[None]] = set()
        self._lock = Lock()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`, which talks to the server.

        Raises:
            CastawayError: the server does not answer, for good.
        """
        with self._lock:
            if self._loop is None:
                self._loop = LoopThread("openenv")
        try:
            return self._loop.run(work)
        except ServerFault as error:
            if error.kind == "rejected":
                raise CastawayError(str(error)) from None
            raise CastawayError(
                f"{error}; start it and run the stage again, which goes on from its last checkpoint"
            ) from None

    async def with_retries(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """The result of `attempt`, which is made again after a fault that may pass, until the deadline.

        Raises:
            ServerFault: it has failed for good.
        """
        last: list[ServerFault] = []

        async def watched() -> Result:
            try:
                return await self._watched(attempt)
            except ServerFault as error:
                last[:] = [error]
                raise

        try:
            async with asyncio.timeout(self.game.deadline_seconds):
                async for made in retrying(self.game.deadline_seconds):
                    with made:
                        return await watched()
        except TimeoutError:
            raise last[0] if last else fault(self.game, "timeout", "did not answer in time", False) from None
        raise AssertionError("tenacity ends with a result or an exception")

    async def _watched(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """One attempt, if the breaker allows it; the breaker hears how it went."""
        if not self._breaker.allow():
            raise fault(self.game, "down", "is out of order, and is not asked for a while", False)
        try:
            result = await attempt()
        except ServerFault as error:
            if error.kind not in ("busy", "rejected"):
                self._breaker.failed()
            raise
        self._breaker.succeeded()
        return result

    async def session(self) -> Session:
        """A session in which an episode may begin: one that is free, or a new one."""
        return self._idle.pop() if self._idle else await Session.opened(self.game)

    def give_back(self, session: Session) -> None:
        """Keep a session for the next episode."""
        self._idle.append(session)

    def drop(self, session: Session) -> None:
        """Close a session that failed, and the free ones, which are likely to fail as well; called in the loop."""
        broken, self._idle = [session, *self._idle], []
        for one in broken:
            closing = asyncio.ensure_future(one.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
