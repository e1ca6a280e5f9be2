"""A real Prefect server, on a port of the loopback device that nobody else has."""

import os
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def prefect_server(home: Path) -> Iterator[str]:
    """Context with a server that answers, with its files in `home`; gives its address, which ends in /api."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    address = f"http://127.0.0.1:{port}/api"
    environment = {**os.environ, "PREFECT_HOME": str(home)}
    command = [sys.executable, "-m", "prefect", "server", "start", "--no-ui", "--host", "127.0.0.1", "--port", port]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        patience = threading.Event()
        for _ in range(600):
            if _answers(address) or process.poll() is not None:
                break
            patience.wait(0.1)
        assert _answers(address), "the Prefect server did not start"
        yield address
    finally:
        process.terminate()
        process.wait()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=1):
            return True
    except (urllib.error.URLError, OSError):
        return False
