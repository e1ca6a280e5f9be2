"""The OpenEnv server of MAROONED: on this host alone unless told otherwise, and not to be upset by what it is sent."""

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
"""Bytes of one request or message."""

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Asgi = Callable[[Event, Receive, Send], Awaitable[None]]


def make_app(scenario: str, rendering: str, sessions: int) -> Asgi:
    """The server's application.

    Args:
        scenario: of all its games.
        rendering: `full` or `compact`.
        sessions: so many at once at the most.

    Raises:
        CastawayError: there is no such scenario.
    """
    load_scenario(scenario)
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
        """What the environment refuses is the caller's mistake."""
        return JSONResponse({"detail": str(error)}, status_code=400)

    return Guard(app)


def serve(app: Asgi, host: str, port: int, told: Callable[[str], object]) -> None:
    """Serve until the process is asked to stop.

    Args:
        app: from `make_app`.
        host: where to listen.
        port: 0 for any free one.
        told: is handed the address as soon as it can be connected to.

    Raises:
        CastawayError: it cannot listen there.
    """
    # What is a little too large gets an answer from the guard; what is far too large is cut off with code 1009.
    config = uvicorn.Config(cast(Any, app), log_level="warning", ws_max_size=2 * LARGEST)
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise CastawayError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    with listening:
        told(f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


class Guard:
    """Answers what is too large, or no JSON object, with a clear error, and keeps it from the application."""

    def __init__(self, app: Asgi) -> None:
        """Stand before `app`."""
        self._app = app

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """Let through what is well-formed."""
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
    """The whole request, or None if it is too large; no more than the limit is kept of it."""
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
    """A request that has been read already, and what comes after it."""
    waiting = [body]

    async def again() -> Event:
        return {"type": "http.request", "body": waiting.pop(), "more_body": False} if waiting else await receive()

    return again


async def _next_message(receive: Receive, send: Send) -> Event:
    """The next message that the application can read; all others are answered here."""
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
    """What is wrong with a message, as a code and a sentence, both empty if nothing is."""
    text = event.get("text")
    if text is None:
        return "INVALID_JSON", "a message is text, not bytes"
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST:
        return "TOO_LARGE", f"the message is larger than {LARGEST} bytes"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return "INVALID_JSON", f"the message is no JSON: {str(error)[:200]}"
    return ("", "") if isinstance(found, dict) else ("INVALID_JSON", "the message is no JSON object")
