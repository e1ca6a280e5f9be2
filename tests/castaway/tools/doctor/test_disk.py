"""Disk space, on file systems that are really full."""

import subprocess
import sys
from pathlib import Path

import pytest

from castaway.tasks.registry import read_params
from castaway.tools.doctor.disk import RECORDS, disk, written

ROOT = Path(__file__).parents[4]
PARAMS = read_params(ROOT / "params.yaml")
ASK = """
import sys
from pathlib import Path
from castaway.tasks.registry import read_params
from castaway.tools.doctor.disk import disk
(found,) = disk(Path(sys.argv[1]), read_params(Path(sys.argv[2])))
print(found.state, found.found)
"""


def on_tmpfs(place: Path, size: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command where a file system of that size is mounted at `place`, for it alone."""
    mount = f'mount -t tmpfs -o size={size} none {place} && exec "$@"'
    whole = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", *command]
    return subprocess.run(whole, capture_output=True, text=True)


def test_a_build_of_the_shipped_runs_fits_here() -> None:
    (found,) = disk(ROOT, PARAMS)
    assert found.state in ("ok", "warning") and str(ROOT) in found.found


def test_a_real_model_needs_its_weights_several_times() -> None:
    small, large = (read_params(ROOT / "profiles" / f"{name}.yaml") for name in ("demo", "llama3.1-8b"))
    assert RECORDS < written(small, ROOT) < 1.1 * RECORDS
    # 8 billion weights of two bytes: the base model and the merged one, in data and in the cache.
    assert 60e9 < written(large, ROOT) < 70e9


def test_a_file_system_without_space_has_failed() -> None:
    # That of the kernel has none at all.
    (found,) = disk(Path("/proc"), PARAMS)
    assert found.state == "failed"


def test_a_small_file_system_has_failed(tmp_path: Path) -> None:
    if on_tmpfs(tmp_path, "1m", ["true"]).returncode:
        pytest.skip("this host lets nobody mount a file system")
    command = [sys.executable, "-c", ASK, str(tmp_path), str(ROOT / "params.yaml")]
    for size, state in (("8m", "failed"), ("1500m", "warning")):
        done = on_tmpfs(tmp_path, size, command)
        assert done.stdout.startswith(f"{state} "), done.stdout + done.stderr
