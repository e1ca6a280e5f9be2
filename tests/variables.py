"""The environment of every test, set before any library is imported."""

import atexit
import os
import shutil
import tempfile

from castaway.processes.environment import SILENT

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
AT_FIRST = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
"""What every test begins with."""
