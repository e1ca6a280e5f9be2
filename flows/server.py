"""The Prefect server that PREFECT_API_URL names: whether it is there at all."""

from __future__ import annotations

import os
import urllib.error
import urllib.request

from castaway.errors import CastawayError

PATIENCE = 5.0
"""Seconds to wait for an answer; Prefect itself would try for minutes."""


def require_server() -> str:
    """The address of the server.

    Raises:
        CastawayError: if nobody answers there.
    """
    address = os.environ["PREFECT_API_URL"].rstrip("/")
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=PATIENCE):
            return address
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise CastawayError(
            f"PREFECT_API_URL is {address} but no Prefect server answers there ({reason}); "
            "start one with `prefect server start`, or unset the variable"
        ) from None
