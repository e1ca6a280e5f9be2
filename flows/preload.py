"""A process that has imported torch and its like once, from which the stages of a build are forked.

These imports take a stage ten seconds of one core. A build starts this process first. The command of a stage, `python
-m flows sft@marooned`, hands its folder, environment and streams to it, passes signals on, and ends as the stage does.
The process imports nothing of Castaway, so that a stage runs the code that DVC has hashed. A stage that needs another
environment than the libraries have read starts afresh.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from castaway.config.params import Params

# Castaway's own modules are imported in the functions of the build and of the stage: the process must have none.

SOCKET = "CASTAWAY_PRELOADED"
"""Environment variable with the path of the socket on which the process takes orders."""
LIBRARIES = (
    *("torch", "transformers", "transformers.models.llama.modeling_llama", "peft", "trl", "datasets"),
    *("mlflow.store.tracking.sqlalchemy_store", "dvc.repo"),
)


@contextmanager
def preloaded(root: Path, params: Params) -> Iterator[dict[str, str]]:
    """Context in which the process runs; yields the variables with which a stage uses it.

    None is started for a GPU, nor for several threads: neither survives a fork. Nor if the variable is set: empty, it
    means that none is wanted.
    """
    from castaway.processes import environment
    from castaway.processes.groups import Group, guarded

    if params.threads > 1 or params.device != "cpu" or SOCKET in os.environ or not hasattr(os, "pidfd_open"):
        yield {}
        return
    unbuffered = {"PYTHONUNBUFFERED": "1"}
    variables = {**environment.FROM_THE_START, **environment.settled(params), **unbuffered}
    with tempfile.TemporaryDirectory(prefix="castaway-") as folder:
        path = str(Path(folder) / "socket")
        command = [sys.executable, "-m", "flows.preload", path]
        group = Group(command, root, variables, Path(folder) / "log", lasting=True)
        read = environment.fingerprint({**os.environ, **variables})
        with guarded(group.process.pid):
            try:
                yield {SOCKET: path, environment.IMPORTED: read, **environment.FROM_THE_START}
            finally:
                group.process.kill()
                group.wait(60.0)  # on a busy machine a killed process takes seconds to end


def fork(arguments: Sequence[str]) -> int | None:
    """Have the process run `python -m flows` with these arguments; its exit status, or None if there is no process."""
    path = os.environ.pop(SOCKET, "")
    if not path:
        return None
    from castaway.processes.groups import end_with_starters

    with socket.socket(socket.AF_UNIX) as connection, tempfile.TemporaryFile("w+") as order:
        json.dump([arguments, sys.orig_argv, os.getcwd(), dict(os.environ)], order)
        order.flush()
        try:
            connection.connect(path)
            socket.send_fds(connection, [b"0"], [0, 1, 2, order.fileno()])
            if not connection.recv(1):
                return None
        except OSError:
            return None

        def pass_on(number: int, _: object) -> None:
            with suppress(OSError):  # it has just ended
                connection.send(bytes([number]))

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, pass_on)
        end_with_starters()
        status = connection.recv(1)
        return status[0] if status else 1


class Server:
    """Forks stages, hands signals on to them, and says how they have ended."""

    def __init__(self, path: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._selector.register(self._listener, selectors.EVENT_READ, self._fork)

    def serve(self) -> list[str]:
        """Import the libraries, and take orders; returns in the forked stages alone, with their arguments."""
        gc.disable()
        for name in LIBRARIES:
            with suppress(ImportError):
                importlib.import_module(name)
        gc.freeze()  # a collection in a stage would copy the pages that it shares
        gc.enable()
        while True:
            for key, _ in self._selector.select():
                if arguments := key.data():
                    return list(arguments)

    def _fork(self) -> list[str]:
        connection = self._listener.accept()[0]
        try:
            _, (*streams, order), *_ = socket.recv_fds(connection, 1, 4)
        except (OSError, ValueError):  # the command ended before it said what it wants
            connection.close()
            return []
        number = os.fork()
        if number:
            for descriptor in (*streams, order):
                os.close(descriptor)
            with suppress(OSError):
                connection.send(b"1")
            self._selector.register(connection, selectors.EVENT_READ, lambda: self._pass_on(connection, number))
            ended = os.pidfd_open(number)
            self._selector.register(ended, selectors.EVENT_READ, lambda: self._report(connection, number, ended))
            return []
        connection.close()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close() if isinstance(key.fileobj, socket.socket) else os.close(key.fd)
        self._selector.close()
        os.setsid()  # what the stage starts is stopped with it
        for descriptor, stream in enumerate(streams):
            os.dup2(stream, descriptor)
            os.close(stream)
        with open(order, encoding="utf-8") as file:
            file.seek(0)
            arguments, sys.orig_argv, folder, variables = json.load(file)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        return list(arguments)

    def _pass_on(self, connection: socket.socket, number: int) -> None:
        if connection.fileno() < 0:  # its stage has ended meanwhile
            return
        signals = b""
        with suppress(ConnectionResetError):
            signals = connection.recv(1)
        with suppress(ProcessLookupError):
            if signals:
                os.kill(number, signals[0])
            else:  # the command is gone, and nobody would see how the stage ends
                self._selector.unregister(connection)
                os.killpg(number, signal.SIGKILL)

    def _report(self, connection: socket.socket, number: int, ended: int) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        with suppress(OSError):
            connection.send(bytes([status % 256 if status >= 0 else 128 - status]))
        self._selector.unregister(ended)
        with suppress(KeyError):
            self._selector.unregister(connection)
        connection.close()
        os.close(ended)


if __name__ == "__main__":
    sys.argv = [sys.argv[0], *Server(sys.argv[1]).serve()]
    try:
        runpy.run_module("flows", run_name="__main__")
    except SystemExit as end:
        ended = end.code if isinstance(end.code, int) else 0
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended)  # to take the libraries down module by module would be another second
