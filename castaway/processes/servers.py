"""What servers of this host and of the user answer: free ports, a request, and the address of Prefect's server.

Neither httpx nor Prefect is imported here, as their import takes long and most stages ask nobody.
"""

from __future__ import annotations

import os
import socket
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from castaway.config.errors import CastawayError, first_line

if TYPE_CHECKING:
    import httpx

SERVER_SECONDS = 3.0  # how long a server may take to accept a connection, and then to answer
VARIABLE = "PREFECT_API_URL"
"""Environment variable, and setting of a Prefect profile, with the address of the user's Prefect server."""


def get(url: str, key: str = "") -> httpx.Response:
    """What a server answers; a key is sent as a bearer token. The text of its CastawayError is the reason alone."""
    import httpx

    headers = {"authorization": f"Bearer {key}"} if key else {}
    # A proxy of the environment cannot reach a server on this host.
    away = urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1")
    try:
        return httpx.get(url, headers=headers, timeout=SERVER_SECONDS, trust_env=away)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise CastawayError(first_line(error)) from None


def is_free(number: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a connection that has just ended does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def configured() -> str:
    """The address, from PREFECT_API_URL or the user's active Prefect profile; empty if neither names a server."""
    if VARIABLE in os.environ:
        return os.environ[VARIABLE].rstrip("/")
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect")
    path = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml").expanduser()
    try:
        content = tomllib.loads(path.read_text("utf-8"))
        return str(content["profiles"][os.environ.get("PREFECT_PROFILE") or content["active"]][VARIABLE]).rstrip("/")
    except (OSError, ValueError, KeyError):
        return ""
