"""One session with an OpenEnv server: a WebSocket, over which one environment is reset and stepped.

OpenEnv's own client connects again by itself when its socket was closed. The server then has made a new environment, in
which no episode has begun, and a step goes there without an error. Here a session that was cut stays cut, and
`castaway_openenv.episode` plays its episode again.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from castaway.config.errors import CastawayError
from castaway.teacher.chat_client import FaultKind, ServerFault
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from castaway_openenv.params import OpenEnvParams

LARGEST_MESSAGE = 1 << 22
"""Bytes of a message that are read; a server that sends more is not believed."""
CLOSING_SECONDS = 1.0
"""How long a server may take to say goodbye."""

ERRORS: Mapping[str, tuple[FaultKind, bool]] = {
    "CAPACITY_REACHED": ("busy", True),
    "FACTORY_ERROR": ("server error", True),
    "SESSION_ERROR": ("server error", True),
    "VALIDATION_ERROR": ("rejected", False),
    "EXECUTION_ERROR": ("rejected", False),
}
"""OpenEnv's error codes: which fault each one is, and whether another attempt may help."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What the server said: the fields of its observation that count, the reward, and whether the episode has ended."""

    observation: dict[str, Any]
    reward: float
    done: bool


class Session:
    """A connection, and the environment behind it."""

    def __init__(self, socket: ClientConnection, game: OpenEnvParams) -> None:
        """Use a connection that is open."""
        self._socket, self._game = socket, game

    @classmethod
    async def opened(cls, game: OpenEnvParams) -> Session:
        """A new session.

        Raises:
            ServerFault: the server takes no connections, or is no OpenEnv server.
        """
        url = f"ws{game.url.rstrip('/').removeprefix('http')}/ws"
        try:
            async with asyncio.timeout(game.attempt_seconds):
                # The environment's proxies are not for a server that we were given the address of.
                socket = await connect(
                    url, proxy=None, open_timeout=None, close_timeout=CLOSING_SECONDS, max_size=LARGEST_MESSAGE
                )
        except TimeoutError:
            raise fault(game, "timeout", "was too slow to connect", True) from None
        except InvalidStatus as error:
            status = error.response.status_code
            what = f"does not speak OpenEnv's protocol (status {status} for {url})"
            raise fault(game, "server error" if status >= 500 else "rejected", what, status >= 500) from None
        except OSError:
            raise fault(game, "refused", "takes no connections", True) from None
        except WebSocketException as error:
            raise fault(game, "truncated", f"broke off ({type(error).__name__})", True) from None
        return cls(socket, game)

    async def ask(self, kind: Literal["reset", "step"], data: Mapping[str, Any]) -> Moment:
        """Reset the environment or step it.

        Raises:
            ServerFault: there is no usable answer; after any fault but `rejected` the session is of no more use.
            CastawayError: the observation lacks a field that the `game` section names.
        """
        try:
            async with asyncio.timeout(self._game.attempt_seconds):
                # A server that is full says so and closes; what it said can still be read.
                with suppress(ConnectionClosed):
                    await self._socket.send(json.dumps({"type": kind, "data": data}))
                answer = json.loads(await self._socket.recv())
        except TimeoutError:
            raise fault(self._game, "timeout", f"was too slow to {kind}", True) from None
        except ConnectionClosed as error:
            if error.sent is not None and error.sent.code == 1009:
                raise fault(self._game, "too long", f"sent more than {LARGEST_MESSAGE} bytes", False) from None
            raise fault(self._game, "truncated", "broke off", True) from None
        except (ValueError, RecursionError):
            raise fault(self._game, "not JSON", "sent something other than JSON", True) from None
        return self._moment(answer)

    def _moment(self, answer: Any) -> Moment:
        try:
            if answer["type"] == "error":
                raise self._refused(answer["data"])
            found, reward, done = (answer["data"][name] for name in ("observation", "reward", "done"))
            paid = float(reward or 0.0)
            if not (isinstance(found, dict) and isinstance(done, bool) and math.isfinite(paid)):
                raise TypeError
        except (KeyError, TypeError, ValueError):
            raise fault(self._game, "not JSON", "sent something other than an observation", True) from None
        if missing := [name for name in self._names() if name not in found]:
            raise CastawayError(
                f"the OpenEnv server at {self._game.url} has no field {missing[0]!r} in its observation; "
                f"it has {', '.join(found)}"
            )
        return Moment({name: found[name] for name in self._names() or found if name != "metadata"}, paid, done)

    def _names(self) -> list[str]:
        """The fields that count, if they are named; none for all."""
        return [*self._game.show, *([self._game.legal] if self._game.legal else [])] if self._game.show else []

    def _refused(self, error: Mapping[str, Any]) -> ServerFault:
        """The fault that an error message stands for."""
        kind, passing = ERRORS.get(str(error.get("code")), ("server error", True))
        details = error.get("errors") or [{}]
        reason = " ".join(f"{error.get('message', '')} {details[0].get('msg', '')}".split())[:300]
        full = "; it must be made with max_concurrent_envs of at least the episodes that are played side by side"
        return fault(self._game, kind, f"says: {reason}{full if kind == 'busy' else ''}", passing)

    async def close(self) -> None:
        """Close the connection."""
        await self._socket.close()


def fault(game: OpenEnvParams, kind: FaultKind, what: str, passing: bool) -> ServerFault:
    """A fault of the server, in a sentence."""
    return ServerFault(kind, f"the OpenEnv server at {game.url} {what}", passing)
