"""Checks that the Prefect server in PREFECT_API_URL answers."""

from __future__ import annotations

import os
import urllib.error
import urllib.request

from castaway.errors import CastawayError

HEALTH_TIMEOUT = 5.0
"""Timeout of the health check, in seconds. Prefect itself would try for minutes."""


def require_server() -> str:
    """The address of the server.

    Raises:
        CastawayError: no server answers there.
    """
    address = os.environ["PREFECT_API_URL"].rstrip("/")
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=HEALTH_TIMEOUT):
            return address
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise CastawayError(
            f"PREFECT_API_URL is {address} but no Prefect server answers there ({reason}); "
            "start one with `prefect server start`, or unset the variable"
        ) from None
