"""Real servers on free ports of the loopback device."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Answers = Mapping[str, tuple[int, str]]
"""Path to status and body."""


@pytest.fixture
def serve() -> Iterator[Callable[[Answers], int]]:
    """Starts an HTTP server with these answers, and gives its port. With a path `key`, a bearer token is needed."""
    with ExitStack() as stack:

        def start(answers: Answers) -> int:
            class Handler(BaseHTTPRequestHandler):
                def log_message(self, *args: Any) -> None:
                    pass

                def do_GET(self) -> None:
                    status, body = answers.get(self.path, (404, "no such page"))
                    if "key" in answers and self.headers.get("authorization") != f"Bearer {answers['key'][1]}":
                        status, body = 401, "unauthorised"
                    self.send_response(status)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body.encode())

            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            return server.server_address[1]

        yield start


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a program that accepts connections, and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def free() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
