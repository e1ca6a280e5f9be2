"""A teacher that one process cannot reach stops all that train together.

Otherwise the others would wait for that process at their next exchange until it times out, and the first one, which
writes the checkpoints, would end without writing any.
"""

from __future__ import annotations

from collections.abc import Callable

from castaway.rl.continuing import Batch
from castaway.rl.ranks import Ranks
from castaway.teacher.base import TeacherOutage


def played_by_all(play: Callable[[], Batch], ranks: Ranks) -> Batch:
    """This process's rollout, once every process has played its own.

    Args:
        play: plays this process's, or waits for it.
        ranks: the processes.

    Raises:
        TeacherOutage: the teacher of this process or of another one cannot judge.
    """
    batch: Batch | TeacherOutage
    try:
        batch = play()
    except TeacherOutage as outage:
        batch = outage
    faults = ranks.gather(str(batch) if isinstance(batch, TeacherOutage) else "")
    if isinstance(batch, TeacherOutage):
        raise batch
    if any(faults):
        raise TeacherOutage(next(filter(None, faults)))
    return batch
