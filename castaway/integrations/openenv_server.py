"""The OpenEnv server of MAROONED."""

import socket
from collections.abc import Callable
from functools import partial

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from openenv.core.env_server.http_server import create_fastapi_app

from castaway.config.errors import CastawayError
from castaway.envs.marooned.scenario import load_scenario
from castaway.integrations.openenv import MaroonedAction, MaroonedObservation, MaroonedOpenEnvironment, MaroonedState

LARGEST = 1 << 20  # maximum size of a message, in bytes


def make_app(scenario: str, rendering: str, sessions: int) -> FastAPI:
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

    return app


def serve(app: FastAPI, host: str, port: int, announce: Callable[[str], object]) -> None:
    """Serve until asked to stop; `announce` is called once clients can connect. Port 0 is any free one."""
    config = uvicorn.Config(app, log_level="warning", ws_max_size=LARGEST)
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise CastawayError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    with listening:
        announce(f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])
