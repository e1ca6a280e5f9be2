"""One process of this test run with torch and its like imported, from which the stages that tests start are forked."""

from __future__ import annotations

import atexit
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from castaway.processes.environment import FROM_THE_START, IMPORTED, fingerprint, settled
from castaway.processes.groups import guarded
from flows.preload import SOCKET
from tests.shipped import PARAMS, ROOT
from tests.variables import AT_FIRST

WANTED = {**FROM_THE_START, "PYTHONUNBUFFERED": "1"}
OF_STAGES = settled(PARAMS.model_copy(update={"threads": 1}))


def forking(variables: Mapping[str, str], python: str = sys.executable) -> dict[str, str]:
    """The environment of a command whose stages are forked; where it has variables of its own, they start afresh."""
    if SOCKET in variables:
        return {**variables}
    own = {name: value for name, value in {**variables, **WANTED}.items() if not name.startswith("PYTEST_")}
    path = {name: value for name, value in own.items() if name == "PYTHONPATH"}
    known = {**AT_FIRST, **path, **WANTED, **OF_STAGES}
    same = fingerprint({**own, **OF_STAGES}) == fingerprint(known)
    return {**own, **(_process(python, tuple(known.items())) if same else {SOCKET: ""})}


@cache
def _process(python: str, variables: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Start the process; the variables with which a stage uses it."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="castaway-")))
    command = [python, "-m", "flows.preload", str(folder / "socket")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=dict(variables), stdout=log, stderr=log, start_new_session=True
        )
    stack.callback(process.wait)
    stack.callback(process.kill)
    stack.enter_context(guarded(process.pid))
    while not (folder / "socket").exists():
        assert process.poll() is None, (folder / "log").read_text("utf-8")
        time.sleep(0.02)
    return {SOCKET: str(folder / "socket"), IMPORTED: fingerprint(dict(variables))}
