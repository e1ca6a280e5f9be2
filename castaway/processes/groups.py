"""Process groups: a command is stopped with all its child processes, and a stage ends with those that started it.

Where `host.yaml` asks for several processes that train together, the stage's own process becomes torchrun's agent. It
starts the command of the stage again, once for each process, and starts all of them anew if one has died: they resume
from the newest checkpoint. Rank 0 does all that a stage does; the others only train.

A stage consists of DVC, a shell, Python and sometimes workers. Prefect's timeouts stop none of them, because a thread
cannot be killed; and stopping only the first process would leave the training running. SIGKILL cannot be handled, and
DVC hands SIGTERM on to nobody: without `end_with_starters` a stage would go on alone, nobody would record what it
makes, and the next `dvc repro` would delete its folder under it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import psutil

from castaway.config.errors import CastawayError
from castaway.processes.hardware import visible_devices
from castaway.processes.host_file import Torchrun

DRIVER = "CASTAWAY_DRIVER"
"""Environment variable with the number of the process that started a group; its stage ends when that has ended."""
STAGE = "DVC_STAGE"  # environment variable that DVC sets for the command of a stage
MEMBER = "TORCHELASTIC_RUN_ID"  # environment variable that torchrun sets for the processes that it starts

GRACE = 10.0  # time between SIGINT and SIGKILL, in seconds

_running: set[Group] = set()
_stopping = False
"""Set before the running groups are stopped; a new group checks it after it was added, so that none is missed."""


class Group:
    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        log: Path | None = None,
        *,
        lasting: bool = False,
    ) -> None:
        """Start the command in `folder`, with additional environment `variables`; its output is appended to `log`.

        Without one it inherits standard output and error, so that progress bars appear unchanged. A `lasting` group is
        stopped by its owner alone: the server that is told how the others were stopped.
        InterruptedError if all groups are being stopped.
        """
        if stopping():
            raise InterruptedError("stopped before it started")
        environment = {**os.environ, **variables, DRIVER: str(os.getpid())}
        with log.open("ab") if log else nullcontext() as output:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL if log else None,
                stdout=output,
                stderr=subprocess.STDOUT if log else None,
                start_new_session=True,
            )
        if not lasting:
            _running.add(self)
        if stopping():
            self.stop()

    def wait(self, timeout: float) -> int:
        """Wait for the command to end, and return its exit status; after `timeout` seconds, stop it: TimeoutError."""
        try:
            return self.process.wait(timeout)
        except BaseException as error:
            self.stop()
            self.process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError from None
            raise
        finally:
            if self.process.poll() is not None:
                self._signal(signal.SIGKILL)  # child processes that are still running
                _running.discard(self)

    def stop(self) -> None:
        """Send SIGINT to the whole group, and SIGKILL after `GRACE` seconds; returns at once."""
        # As Ctrl-C in a terminal does: DVC then waits for its stage and releases its locks.
        self._signal(signal.SIGINT)
        killer = threading.Timer(GRACE, self._signal, [signal.SIGKILL])
        killer.daemon = True
        killer.start()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


@contextmanager
def interruptible() -> Iterator[None]:
    """Context in which Ctrl-C and SIGTERM stop every running group, whichever thread waits for it.

    Closing the terminal (SIGHUP) stops them too, unless the driver was started with nohup. This needs a handler, since
    the groups are not in the terminal's session.
    """
    global _stopping

    def stop(*_: object) -> None:
        stop_all()
        raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)
    _stopping = False
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _stopping = False


@contextmanager
def stopped_together() -> Iterator[None]:
    """Context that stops every running group if an exception leaves it, so that the threads waiting for them end."""
    try:
        yield
    except BaseException:
        if not stopping():
            stop_all()
        raise


def stop_all() -> None:
    global _stopping
    _stopping = True
    for group in tuple(_running):
        group.stop()


def stopping() -> bool:
    return _stopping


def pause(seconds: float) -> None:
    """Wait for `seconds`; InterruptedError if all groups are being stopped."""
    # No `Event`: a signal handler that sets it while the main thread holds its lock would wait for ever.
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if _stopping:
            raise InterruptedError("stopped while it waited")
        time.sleep(min(left, 0.1))


def end_with_starters() -> None:
    """End soon after DVC, the driver or torchrun's agent that started this process: by SIGTERM, then by SIGKILL."""
    # Torchrun gives each process a session of its own, so that whoever kills the agent's group does not reach it.
    numbers = [os.getppid()] if is_member() else starters() if STAGE in os.environ else []
    if not numbers or not hasattr(os, "pidfd_open"):
        return
    try:
        watched = [os.pidfd_open(number) for number in numbers]
    except ProcessLookupError:
        sys.exit("stopped: what started this stage has ended")
    threading.Thread(target=_watch, args=(watched,), daemon=True).start()


def starters() -> list[int]:
    """The numbers of DVC's process and of the driver's, as far as they can be known."""
    driver = os.environ.get(DRIVER, "")
    numbers = [int(driver)] if driver.isdecimal() else []
    for parent in psutil.Process().parents():
        try:
            # DVC sets the variable for its child processes, the shell and the stage, and not for itself.
            if parent.environ().get(STAGE) != os.environ[STAGE]:
                return [*numbers, parent.pid] if parent.pid != 1 else numbers
        except psutil.Error:
            return numbers
    return numbers


def _watch(watched: list[int]) -> None:
    select.select(watched, [], [])  # a process's descriptor is readable once it has ended
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    for process in [*psutil.Process().children(recursive=True), psutil.Process()]:
        process.kill()


GUARD = """\
import os, select, signal, sys, time
driver, group, grace = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
try:
    select.select([os.pidfd_open(driver)], [], [])
except ProcessLookupError:
    pass
for number in (signal.SIGTERM, signal.SIGKILL):
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        break
    time.sleep(grace)
"""
"""A program that waits for the end of a process, and then stops a process group."""


@contextmanager
def guarded(group: int) -> Iterator[None]:
    """Context in which a process group is stopped if this process is killed; leaving it stops nothing."""
    if not hasattr(os, "pidfd_open"):
        yield
        return
    numbers = [str(os.getpid()), str(group), str(GRACE)]
    command = [sys.executable, "-c", GUARD, *numbers]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True) as guard:
        try:
            yield
        finally:
            guard.kill()


def is_member() -> bool:
    return MEMBER in os.environ


def rank() -> int:
    return int(os.environ.get("RANK", "0")) if is_member() else 0


def world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1")) if is_member() else 1


def start_torchrun(address: str, device: str, settings: Torchrun) -> None:
    """Train the stage with the processes that `settings` ask for; returns when all of them have finished."""
    wanted, visible = settings.nproc_per_node, len(visible_devices()) if device != "cpu" else 0
    if device != "cpu" and visible < wanted:
        raise CastawayError(
            f"{address} wants {wanted} GPUs (torchrun in host.yaml) and finds {visible}; "
            f"set nproc_per_node to {visible or 1}, or make more of them visible"
        )
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    # Processes that are started again would read what the first ones left in the agent's store, and hang
    # (pytorch issue 135712); this gives each attempt a store of its own.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    try:
        with tempfile.TemporaryDirectory(prefix="castaway-torchrun-") as logs:
            torchrun([*torchrun_arguments(settings), "--log-dir", logs, "-m", "flows", address])
    except SignalException as stopped:
        sys.exit(128 + stopped.sigval)
    except ChildFailedError as error:
        number, failure = error.get_first_failure()
        raise CastawayError(
            f"{address}: process {number} of {wanted * settings.nnodes} failed with exit status {failure.exitcode}; "
            f"its lines above say why"
        ) from None


def torchrun_arguments(settings: Torchrun) -> list[str]:
    if settings.nnodes == 1 and settings.master_port is None:
        meeting = ["--standalone", "--local-addr", settings.master_addr]
    else:
        meeting = ["--nnodes", str(settings.nnodes), "--node-rank", str(settings.node_rank)]
        meeting += ["--master-addr", settings.master_addr, "--master-port", str(settings.master_port)]
    times = ["--max-restarts", str(settings.max_restarts), "--shutdown-timeout", str(int(GRACE))]
    return [*meeting, "--nproc-per-node", str(settings.nproc_per_node), *times]


def mark() -> str:
    """This process as `HOST:PID:START`; the start is in ticks since the boot, so it does not jump as clocks do."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start(os.getpid())}"


def has_ended(mark: str) -> bool:
    """Whether the process is known to have ended; nothing is known of other hosts, and of a mark without a process."""
    host, _, rest = mark.partition(":")
    number, _, start = rest.partition(":")
    if host != socket.gethostname() or not number.isdecimal():
        return False
    return not runs(int(number)) or (bool(start) and _start(int(number)) != start)


def runs(number: int) -> bool:
    """Whether a process of this number runs; a zombie has ended."""
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _start(number: int) -> str:
    """Field 22 of `/proc/PID/stat`; empty where there is no such file. The name before it may contain spaces."""
    try:
        return Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return ""
