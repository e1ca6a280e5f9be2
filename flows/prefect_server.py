"""Speaks to the user's Prefect server, if there is one, and bears that it is away.

Prefect's API is called directly, and not through `@flow` and `@task`: their engine replaces the signal handlers of the
driver, and makes a stage that has succeeded fail if the server does not hear of its end.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from castaway.errors import CastawayError
from castaway.tools.prefect_address import VARIABLE, address

TIMEOUT = 5.0
"""Timeout of one call, in seconds. Prefect itself would try for minutes."""
AWAY = 15.0
"""Time until a server that did not answer is asked again, in seconds."""

Report = Callable[[Any], object]
"""One report to the server: a call of its client."""


def require_server() -> str:
    """The address of the server.

    Raises:
        CastawayError: no server answers there.
    """
    try:
        with urllib.request.urlopen(f"{address()}/health", timeout=TIMEOUT):
            return address()
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise CastawayError(
            f"{VARIABLE} is {address()} but no Prefect server answers there ({reason}); "
            f"start one with `prefect server start`, or set {VARIABLE} to nothing"
        ) from None


def connect() -> Any:
    """A client of the server, which fails soon if the server does not answer.

    Raises:
        CastawayError: no server answers.
    """
    require_server()  # before Prefect is imported, which takes seconds
    os.environ.setdefault("PREFECT_CLIENT_MAX_RETRIES", "0")
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "ERROR")
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_KEY

    return SyncPrefectClient(
        address(),
        auth_string=PREFECT_API_AUTH_STRING.value(),
        api_key=PREFECT_API_KEY.value(),
        httpx_settings={"timeout": TIMEOUT},
    )


class Reports:
    """Sends reports in their order. What the server did not take is kept, and sent with a later report."""

    def __init__(self) -> None:
        self._client: Any = None
        self._unsent: list[Report] = []
        self._again = 0.0
        self._warned = False
        self._lock = threading.Lock()

    def send(self, *reports: Report, now: bool = False) -> None:
        """Send the reports, after those that are still unsent.

        Args:
            reports: functions that are called with a client.
            now: also if the server did not answer less than `AWAY` seconds ago.
        """
        with self._lock:
            self._unsent += [report for report in reports if report not in self._unsent]
            if not now and time.monotonic() < self._again:
                return
            try:
                while self._unsent:
                    self._call(self._unsent[0])
                    del self._unsent[0]
            except Exception as error:  # any failure of Prefect: what is built matters more
                self._client = None
                self._again = time.monotonic() + AWAY
                if not self._warned:
                    warn(error)
                self._warned = True

    def _call(self, report: Report) -> None:
        """Send one report; a connection that a restarted server has closed is made anew."""
        if self._client is not None:
            try:
                report(self._client)
                return
            except Exception as error:
                if getattr(error, "response", None) is not None:  # the server answered, and refused
                    raise
        self._client = connect()
        report(self._client)


def warn(error: Exception) -> None:
    """Print one line about a server that did not take a report."""
    told = " ".join(str(error).split())[:300] or type(error).__name__
    print(f"warning: going on without the Prefect server: {told}", file=sys.stderr, flush=True)
