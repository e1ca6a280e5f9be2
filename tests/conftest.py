"""Every test runs quietly, offline, on one thread, and away from the user's own files."""

import atexit
import gc
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from hypothesis import settings

from castaway.processes.environment import SILENT

gc.disable()
settings.register_profile("castaway", deadline=None)  # of milliseconds; a machine may be busy
settings.load_profile("castaway")

TESTS = Path(__file__).parent
LONGEST = (
    "test_whole_pipeline.py",
    "test_remote.py",
    "test_together.py",
    "test_plugin.py",
    "test_profile.py",
    "test_registry.py",
    "test_lineage.py",
    "test_prefect.py",
    "test_stopped.py",
    "test_outage.py",
    "test_families.py",
    "test_matrix.py",
    "test_ui.py",
    "test_one_run.py",
    "test_sweeps.py",
    "test_killed.py",
)
"""Files that take longest, some of them only waiting."""

NO_BROWSER = "needs a browser: `make browser`, as root, installs Chromium"

PREFECT_HOME = tempfile.mkdtemp(prefix="castaway-prefect-")
atexit.register(shutil.rmtree, PREFECT_HOME, ignore_errors=True)

for name in [name for name in os.environ if name.startswith(("DVC_", "PREFECT_", "MLFLOW_", "CASTAWAY_"))]:
    del os.environ[name]
os.environ.update(SILENT)
os.environ.update(
    # Before torch is imported, this is what sets its number of threads.
    OMP_NUM_THREADS="1",
    MKL_NUM_THREADS="1",
    TOKENIZERS_PARALLELISM="false",
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    PREFECT_HOME=PREFECT_HOME,
    # Temporary repositories are committed to, whoever runs the tests.
    GIT_AUTHOR_NAME="Friday",
    GIT_AUTHOR_EMAIL="friday@example.org",
    GIT_COMMITTER_NAME="Friday",
    GIT_COMMITTER_EMAIL="friday@example.org",
)


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A cache of DVC that the processes of this test run share."""
    own = tmp_path_factory.getbasetemp()
    return (own if worker_id == "master" else own.parent) / "dvc-cache"


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """Give the environment back as it was: our commands set variables for the processes that they start."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def pytest_collection_finish() -> None:
    """What was imported lives to the end: no collection of garbage need look at it, as in `environment.importing`."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take minutes: side by side, nothing should wait for them at the end."""
    items.sort(key=lambda item: (item.path.name not in LONGEST, item.path.parent != TESTS))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which machine it was: `tests/hashes.json` is compared between machines."""
    booted = datetime.fromtimestamp(psutil.boot_time(), UTC)
    kind = f"{platform.system()} {platform.release()} {platform.machine()}, {psutil.cpu_count()} cores"
    terminalreporter.write_line(f"machine: {kind}, booted {booted:%F %T} UTC")
    if skipped := [one for one in terminalreporter.stats.get("skipped", []) if NO_BROWSER in str(one.longrepr)]:
        files = sorted({one.nodeid.partition("::")[0] for one in skipped})
        terminalreporter.write_line(f"{len(skipped)} tests were skipped ({', '.join(files)}): each {NO_BROWSER}")
