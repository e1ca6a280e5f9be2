"""Jobs are shared by real processes: each is done once, and no helper outlives what it works for."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from castaway.config.errors import CastawayError
from castaway.rollout.side_by_side import LEAST, Share, side_by_side

ROOT = Path(__file__).parents[3]
JOBS = 6


def meet(folder: Path, share: Share) -> dict[int, tuple[int, int]]:
    """Do jobs, after the first only when all processes have one; the results are process and niceness."""
    found = {}
    for job in range(JOBS):
        if share.take(job):
            found[job] = os.getpid(), os.nice(0)
            (folder / str(os.getpid())).touch()
            while len(list(folder.iterdir())) < 3:
                os.sched_yield()
    return found


def fail_beside(_: None, share: Share) -> dict[int, int]:
    """Do all jobs; the helpers fail."""
    if share.helps:
        raise ValueError("the helper has no luck")
    return {job: share.count() for job in range(JOBS) if share.take(job)}


def wait_beside(place: Path, share: Share) -> dict[int, int]:
    """Helpers write their numbers into a file and wait; whoever started them is killed by its caller."""
    if share.helps:
        place.write_text(str(os.getpid()), "ascii")
    signal.pause()
    return {}


def alone(_: None, share: Share) -> dict[int, tuple[int, int]]:
    """Do all jobs, the last one first."""
    return {job: (job, os.getpid()) for job in reversed(range(JOBS)) if share.take(job)}


def test_each_job_is_done_once_by_some_process_and_helpers_stand_back(tmp_path: Path) -> None:
    found = side_by_side(meet, tmp_path, JOBS, 3)
    assert len(found) == JOBS
    niceness = dict(found)
    assert len(niceness) == 3 and niceness.pop(os.getpid()) == os.nice(0)
    assert set(niceness.values()) == {LEAST}
    assert not multiprocessing.active_children()


def test_one_process_starts_no_other_and_results_come_in_the_order_of_the_jobs() -> None:
    assert side_by_side(alone, None, JOBS, 1) == [(job, os.getpid()) for job in range(JOBS)]


def test_a_helper_that_fails_is_an_error_of_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CastawayError, match=r"^a parallel process has ended too early; its lines above"):
        side_by_side(fail_beside, None, JOBS, 2)
    assert "the helper has no luck" in capfd.readouterr().err


def test_helpers_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "helper"
    code = (
        "from pathlib import Path; from castaway.rollout.side_by_side import side_by_side; "
        "from tests.castaway.rollout.test_side_by_side import wait_beside\n"
        f"if __name__ == '__main__': side_by_side(wait_beside, Path({str(place)!r}), 2, 2)"
    )
    program = tmp_path / "program.py"
    program.write_text(code, "utf-8")
    started = subprocess.Popen([sys.executable, str(program)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    while not place.exists() or not place.read_text("ascii"):
        assert started.poll() is None
        os.sched_yield()
    helper = psutil.Process(int(place.read_text("ascii")))
    started.kill()
    started.wait()
    assert helper.wait(30) is None and not helper.is_running()
