"""A full disk, a clock that jumps, and two processes: what is told, and what is kept."""

import ctypes
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.tracking import dvc_stage
from flows.locks import lock_folder
from tests.flows.conftest import BASE_ALONE, BODY, WITHOUT_MLFLOW, Repository

LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    if LIBC.mount(b"tmpfs", bytes(place), b"tmpfs", 0, b"size=8m"):
        pytest.skip("no file system may be mounted here")
    yield place
    LIBC.umount2(bytes(place), 2)


@pytest.mark.slow
def test_a_full_disk_is_a_failure_that_says_so(repository: Callable[[str], Repository], small: Path) -> None:
    made = repository(BASE_ALONE)
    made.write(
        "stages/base.py",
        "def run(context):\n    (context.output / 'weights.bin').write_bytes(bytes(6 << 20))\n    return {}\n",
    )
    # The model fits, and DVC's copy of it does not.
    (made.root / ".dvc/cache").symlink_to(small)
    (small / "filler").write_bytes(bytes(4 << 20))
    done = made.run("flows", "pipeline")
    assert done.returncode == 2, done.stdout
    sentence = "base ran, but DVC could not save it (a full disk?); make room, and run it with --force"
    assert sentence in done.stderr
    assert (made.root / "data/base/weights.bin").exists()
    for path in (small / "filler", *small.rglob("*.tmp")):  # DVC leaves what it began to copy
        path.unlink()
    done = made.run("flows", "pipeline", "--force")
    assert done.returncode == 0, done.stderr


def test_a_clock_that_was_set_back_does_not_wait_for_ever(
    repository: Callable[[str], Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = repository(BASE_ALONE)
    made.write("dvc.yaml", "stages: [")
    made.write("dvc.lock", "")
    os.utime(made.root / "dvc.lock", (time.time() + 86400, time.time() + 86400))
    monkeypatch.setattr(dvc_stage, "LOCK_WRITE_SECONDS", 0.2)
    with pytest.raises(CastawayError, match=r"dvc\.yaml cannot be used"):
        dvc_stage.load(made.root, "base")


def test_two_processes_never_share_a_scratch_folder(tmp_path: Path) -> None:
    descriptor = lock_folder(tmp_path / "scratch")
    assert descriptor is not None and lock_folder(tmp_path / "scratch") is None
    os.close(descriptor)
    descriptor = lock_folder(tmp_path / "scratch")
    assert descriptor is not None
    # Deleted by the process that has it, while another waits: the other gets a new one.
    shutil.rmtree(tmp_path / "scratch")
    again = lock_folder(tmp_path / "scratch")
    assert again is not None
    os.close(descriptor)
    os.close(again)


def test_a_stage_records_the_commit_that_it_began_with(repository: Callable[[str], Repository]) -> None:
    made = repository(BASE_ALONE)
    change = "    import pathlib\n    pathlib.Path('stages/base.py').write_text('changed')\n"
    made.write("stages/base.py", BODY.replace("    for step", change + "    for step", 1))
    made.commit()
    assert made.run("flows", "base", **WITHOUT_MLFLOW).returncode == 0
    record = json.loads((made.root / "data/runs/base.json").read_text())
    assert len(record["revision"]) == 40


@pytest.mark.parametrize("command", ["pipeline", "base"])
def test_a_folder_of_dvc_that_is_another_users_is_told_with_the_remedy(
    repository: Callable[[str], Repository], command: str
) -> None:
    """DVC keeps what it knows of all clones of a host in /var/tmp/dvc, which may belong to whoever came first."""
    repo = repository(BASE_ALONE)
    done = repo.run("flows", command, DVC_SITE_CACHE_DIR="/dev/null/dvc", **WITHOUT_MLFLOW)
    assert (done.returncode, done.stderr) == (
        2,
        "error: DVC cannot write to /dev/null/dvc (Not a directory); make it writable, or let DVC_SITE_CACHE_DIR name "
        "another folder\n",
    )
