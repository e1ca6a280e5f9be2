"""Questions to servers and programs, each with a time limit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from castaway.errors import CastawayError, first_line

SERVER_SECONDS = 3.0
"""How long a server may take to accept a connection, and then to answer."""
PROGRAM_SECONDS = 30.0
"""How long git or DVC may take."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""This host's own names."""
QUIET = {"DO_NOT_TRACK": "1", "DVC_NO_ANALYTICS": "1", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
"""Variables with which the programs report nothing, write nothing, and start no threads for torch."""


def is_here(url: str) -> bool:
    """Whether a URL leads to this host."""
    return urlsplit(url).hostname in LOOPBACK


def get(url: str, key: str = "") -> httpx.Response:
    """What a server answers.

    Args:
        url: to get.
        key: sent as a bearer token, unless it is empty.

    Raises:
        CastawayError: it does not answer; the text is the reason alone.
    """
    headers = {"authorization": f"Bearer {key}"} if key else {}
    # A proxy of the environment cannot reach a server on this host.
    try:
        return httpx.get(url, headers=headers, timeout=SERVER_SECONDS, trust_env=not is_here(url))
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise CastawayError(first_line(error)) from None


def run(command: Sequence[str], folder: Path, seconds: float = PROGRAM_SECONDS) -> str:
    """What a program prints.

    Args:
        command: to run.
        folder: to run it in.
        seconds: that it may take.

    Raises:
        CastawayError: it is missing, takes too long, or fails; the text is the reason alone.
    """
    name = " ".join(command[:3])
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **QUIET},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CastawayError(f"`{name}` took longer than {seconds:g} seconds") from None
    except OSError as error:
        raise CastawayError(f"`{name}` cannot be run: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise CastawayError(f"`{name}` failed: {lines[-1].strip()}")
    return done.stdout
