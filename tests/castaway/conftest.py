"""A teacher's server with every fault there is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A fault server in a process of its own."""
    command = [sys.executable, "-m", "tests.castaway.teacher.fault_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        server.kill()
