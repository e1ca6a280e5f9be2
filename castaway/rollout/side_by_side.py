"""Shares the jobs of a stage among processes on the CPU, whatever number of them there is.

All processes walk through the same jobs in the same order, and each does those that no other has taken. A helper gets
the processor time that other stages leave over, so that it takes nothing from a build in which all cores are busy.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from castaway.config.errors import CastawayError

Result = TypeVar("Result")

SPAWN = multiprocessing.get_context("spawn")
"""Helpers start afresh: a copy of this process could inherit a lock that one of its threads holds."""
LEAST = 19
"""Niceness of the helpers, of which 19 is the most."""


class Share:
    """What the processes know of each other: who does which job, and how much is done."""

    def __init__(self, jobs: int) -> None:
        self._taken, self._done = SPAWN.Array("b", jobs), SPAWN.Value("q", 0)

    @property
    def helps(self) -> bool:
        """Whether this process is a helper, which reports to nobody."""
        return multiprocessing.parent_process() is not None

    def take(self, job: int) -> bool:
        """Whether the caller does this job, by its number; false if another process does it."""
        with self._taken:
            if self._taken[job]:
                return False
            self._taken[job] = 1
            return True

    def count(self) -> int:
        """One more step of some job is done; returns how many are, in all processes."""
        with self._done:
            self._done.value += 1
            return self._done.value


Work = Callable[[Any, Share], dict[int, Result]]
"""`work(argument, share)`: does the jobs that it can take, and returns their results by number."""


def side_by_side(work: Work[Result], argument: Any, jobs: int, processes: int) -> list[Result]:
    """Do all jobs, in this process and in helpers, `processes` in all; returns the results in the order of the jobs.

    `work` is a function of a module, which is called once in each process; `argument` is pickled for the helpers.
    CastawayError if a helper has failed.
    """
    share, results = Share(jobs), dict[int, Result]()
    with ExitStack() as stack:
        helpers = [_start(work, argument, share, stack) for _ in range(min(processes, jobs) - 1)]
        results |= work(argument, share)
        for helper in helpers:
            try:
                results |= helper.recv()
            except EOFError:
                raise CastawayError("a parallel process has ended too early; its lines above say why") from None
    return [results[job] for job in range(jobs)]


def _start(work: Work[Any], argument: Any, share: Share, stack: ExitStack) -> Connection:
    """Start a helper that ends at the latest with `stack`; returns the connection that gives its results."""
    here, there = SPAWN.Pipe(duplex=False)
    helper = SPAWN.Process(target=_help, args=(there, work, argument, share), daemon=True)
    helper.start()
    there.close()  # the helper has its own: when that is closed too, `here` ends
    # One that has sent its results has ended or is about to; one that has not is of no use any more.
    stack.callback(helper.join)
    stack.callback(helper.kill)
    return here


def _help(results: Connection, work: Work[Any], argument: Any, share: Share) -> None:
    os.nice(LEAST)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    results.send(work(argument, share))


def _end_with_parent() -> None:
    """Nobody would take the results: a parent that was killed has told nobody."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)
