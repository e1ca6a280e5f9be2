"""The OpenEnv server of MAROONED, with a guard against messages that are too large or malformed."""

from __future__ import annotations

import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any, cast

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from openenv.core.env_server.http_server import create_fastapi_app

from castaway.envs.marooned.scenario import load_scenario
from castaway.errors import CastawayError
from castaway.integrations.openenv import MaroonedAction, MaroonedObservation, MaroonedOpenEnvironment, MaroonedState

LARGEST = 1 << 20
"""Maximum size of a request or message, in bytes."""

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Asgi = Callable[[Event, Receive, Send], Awaitable[None]]


def make_app(scenario: str, rendering: str, sessions: int) -> Asgi:
    """The ASGI application of the server.

    Args:
        scenario: of all games.
        rendering: of the prompts, `full` or `compact`.
        sessions: maximum number of sessions at the same time.

    Raises:
        CastawayError: there is no such scenario.
    """
    load_scenario(scenario)  # only for its error: otherwise the first session would fail
    app: FastAPI = create_fastapi_app(
        partial(MaroonedOpenEnvironment, scenario, rendering),
        MaroonedAction,
        MaroonedObservation,
        max_concurrent_envs=sessions,
        env_name="marooned",
        state_cls=MaroonedState,
    )

    @app.exception_handler(ValueError)
    async def refuse(request: Request, error: ValueError) -> JSONResponse:
        """Status 400 instead of 500: a ValueError of the environment is the caller's error."""
        return JSONResponse({"detail": str(error)}, status_code=400)

    return Guard(app)


def serve(app: Asgi, host: str, port: int, announce: Callable[[str], object]) -> None:
    """Serve until the process is asked to stop.

    Args:
        app: from `make_app`.
        host: address to listen on.
        port: 0 for any free port.
        announce: called with the server's address as soon as clients can connect.

    Raises:
        CastawayError: the address or port cannot be used.
    """
    # Twice the limit: the guard answers a message that is a little too large with an error, and uvicorn closes the
    # connection with code 1009 for one that is much too large.
    config = uvicorn.Config(cast(Any, app), log_level="warning", ws_max_size=2 * LARGEST)
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise CastawayError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    with listening:
        announce(f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


class Guard:
    """Answers messages that are too large or are not JSON objects with an error; the application does not get them."""

    def __init__(self, app: Asgi) -> None:
        """Guard the application `app`."""
        self._app = app

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """Pass on what is well-formed."""
        if scope["type"] == "websocket":
            await self._app(scope, partial(_next_message, receive, send), send)
        elif scope["type"] == "http":
            body = await _body(receive)
            if body is None:
                detail = f"the request is larger than {LARGEST} bytes"
                await JSONResponse({"detail": detail}, status_code=413)(scope, receive, send)
            else:
                await self._app(scope, _once(body, receive), send)
        else:
            await self._app(scope, receive, send)


async def _body(receive: Receive) -> bytes | None:
    """The body of a request, or None if it is too large; not more than `LARGEST` bytes are kept in memory."""
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        part = event.get("body", b"")
        size += len(part)
        if size > LARGEST:
            return None
        parts.append(part)
        if event["type"] == "http.disconnect" or not event.get("more_body"):
            return b"".join(parts)


def _once(body: bytes, receive: Receive) -> Receive:
    """A `Receive` that gives a body that has been read already, and then the later events."""
    waiting = [body]

    async def again() -> Event:
        return {"type": "http.request", "body": waiting.pop(), "more_body": False} if waiting else await receive()

    return again


async def _next_message(receive: Receive, send: Send) -> Event:
    """The next well-formed message; errors are sent for all others."""
    while True:
        event = await receive()
        if event["type"] != "websocket.receive":
            return event
        code, problem = _problem(event)
        if not problem:
            return event
        answer = {"type": "error", "data": {"message": problem, "code": code}}
        await send({"type": "websocket.send", "text": json.dumps(answer)})


def _problem(event: Event) -> tuple[str, str]:
    """What is wrong with a message, as an error code and a sentence; both are empty if it is well-formed."""
    text = event.get("text")
    if text is None:
        return "INVALID_JSON", "a message is text, not bytes"
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST:
        return "TOO_LARGE", f"the message is larger than {LARGEST} bytes"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return "INVALID_JSON", f"the message is not JSON: {str(error)[:200]}"
    return ("", "") if isinstance(found, dict) else ("INVALID_JSON", "the message is not a JSON object")
