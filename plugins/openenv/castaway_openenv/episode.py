"""An episode on a server, which outlives its session.

The server forgets an episode when its connection is cut. The episode is its seed and its actions, so it is played again
in a new session, up to where it was, and every answer is compared with the first one. If one differs, the stage stops:
no policy learns from an episode that is two halves of different ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from castaway.config.errors import CastawayError
from castaway.teacher.chat_client import ServerFault

from castaway_openenv.server import Server
from castaway_openenv.session import Moment, Session

Kind = Literal["reset", "step"]
Answer = Moment | str
"""What came of a step: the next moment, or why the server rejects the action."""


class Episode:
    """The episode of one seed, while it is played."""

    def __init__(self, server: Server, seed: int) -> None:
        """Ask nothing yet; `begin` comes first."""
        self._server, self._seed = server, seed
        self._session: Session | None = None
        self._history: list[tuple[Kind, Mapping[str, Any], Answer]] = []
        """What was asked, and what was answered."""

    async def begin(self) -> Moment:
        """Reset to the seed.

        Raises:
            ServerFault: the server does not answer.
        """
        moment = await self._asked("reset", {**self._server.game.reset, "seed": self._seed})
        if isinstance(moment, str):
            raise AssertionError("a rejected reset raises")
        return moment

    async def act(self, action: Mapping[str, Any]) -> Answer:
        """Take one step.

        Raises:
            ServerFault: the server does not answer.
            CastawayError: the session broke, and the episode played again is another one.
        """
        return await self._asked("step", action)

    def close(self) -> None:
        """Give the session back."""
        if self._session is not None:
            self._server.give_back(self._session)
            self._session = None

    def __del__(self) -> None:
        self.close()

    async def _asked(self, kind: Kind, data: Mapping[str, Any]) -> Answer:
        async def attempt() -> Answer:
            session, self._session = self._session, None
            fresh = session is None
            session = session or await self._server.session()
            try:
                if fresh:
                    await self._play_again(session)
                answer = await _answer(session, kind, data)
            except BaseException:
                # Also when it was cancelled: the answer to a question that nobody asks any more may be on its way.
                self._server.drop(session)
                raise
            self._session = session
            return answer

        answer = await self._server.with_retries(attempt)
        self._history.append((kind, data, answer))
        return answer

    async def _play_again(self, session: Session) -> None:
        """Bring a session to where the episode stands.

        Raises:
            CastawayError: the server does not repeat the episode.
        """
        url = self._server.game.url
        if self._history and self._server.repeats is False:
            raise CastawayError(
                f"the OpenEnv server at {url} broke off and does not repeat an episode for the same seed, so episode "
                f"{self._seed} cannot be played again; run the stage again, which goes on from its last checkpoint"
            )
        for turn, (kind, data, before) in enumerate(self._history):
            answer = await _answer(session, kind, data)
            if answer != before and not (isinstance(answer, str) and isinstance(before, str)):
                raise CastawayError(
                    f"the OpenEnv server at {url} broke off, and now plays episode {self._seed} in another way from "
                    f"turn {turn} on: is it another version? Start the one from before, or train from the beginning"
                )


async def _answer(session: Session, kind: Kind, data: Mapping[str, Any]) -> Answer:
    """What the server answers; for a step that it rejects, the reason."""
    try:
        return await session.ask(kind, data)
    except ServerFault as error:
        if error.kind == "rejected" and kind == "step":
            return str(error)
        raise
