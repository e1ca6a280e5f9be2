"""A process that has ended is told from one that runs, and from another one with its number."""

import os
import signal
import subprocess
import sys

from flows import alive


def test_a_process_runs_or_has_ended() -> None:
    own = alive.mark()
    host, number, start = own.split(":")
    assert int(number) == os.getpid()
    assert not alive.has_ended(own)
    assert not alive.has_ended(f"{host}:{number}")  # as it was written before starts were
    assert alive.has_ended(f"{host}:{number}:{int(start) - 1}")
    assert alive.has_ended(f"{host}:{2**22 + 1}:{start}")
    assert not alive.has_ended(f"another-{host}:{2**22 + 1}:{start}")
    assert not alive.has_ended("")


def test_a_process_that_nobody_has_waited_for_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert alive.runs(child.pid)
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not alive.runs(child.pid)
    child.communicate()
