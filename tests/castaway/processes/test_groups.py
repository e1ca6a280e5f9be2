"""A process that has ended is told from one that runs, and from another one with its number."""

import os
import signal
import subprocess
import sys

from castaway.processes import groups


def test_a_process_runs_or_has_ended() -> None:
    own = groups.mark()
    host, number, start = own.split(":")
    assert int(number) == os.getpid()
    assert not groups.has_ended(own)
    assert not groups.has_ended(f"{host}:{number}")  # as it was written before starts were
    assert groups.has_ended(f"{host}:{number}:{int(start) - 1}")
    assert groups.has_ended(f"{host}:{2**22 + 1}:{start}")
    assert not groups.has_ended(f"another-{host}:{2**22 + 1}:{start}")
    assert not groups.has_ended("")


def test_a_process_that_nobody_has_waited_for_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert groups.runs(child.pid)
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not groups.runs(child.pid)
    child.communicate()
