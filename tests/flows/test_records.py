"""The peak of memory in a run record."""

import subprocess
import sys

MEASURE = "from flows.records import peak_memory; print(peak_memory())"


def test_the_peak_is_this_process_s_own_and_not_its_parent_s() -> None:
    large = f"import subprocess, sys; held = bytes(10**9); subprocess.run([sys.executable, '-c', {MEASURE!r}])"
    found = subprocess.run([sys.executable, "-c", large], capture_output=True, text=True, check=True, timeout=60)
    assert 0 < float(found.stdout) < 0.5


def test_what_was_given_back_counts() -> None:
    code = f"held = b'x' * 10**9; del held; {MEASURE}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert 0.9 < float(found.stdout) < 1.5
