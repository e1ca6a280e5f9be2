"""The environment of every process that Castaway starts: quiet, offline where it can be, and reproducible.

Must be applied before torch, transformers, DVC, MLflow or Prefect is imported: each reads its variables once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import monotonic, sleep

import psutil

from castaway.config.params import Params
from castaway.errors import CastawayError

SILENT = {
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "GRADIO_ANALYTICS_ENABLED": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Nothing is told to anybody."""

STEADY = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "TOKENIZERS_PARALLELISM": "false",
    # Or each library takes the widest instructions that the processor has, and rounds accordingly.
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
"""Defaults of ours that a user's own value overrides."""

ASLEEP = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
AWAKE = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "100000"}
"""How OpenMP's threads wait for one another, between passes that take less time than waking up does: awake they save a
third of a training's time where each has a core of its own, and cost ten times of it where they share one."""
WATCHED_SECONDS = 0.5

FROM_THE_START = {
    "PYTHONHASHSEED": "0",
    # The C library would hand every large tensor back to the kernel and ask for it again: a third of a training.
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "67108864",
}
"""What a process reads as it starts: the order of sets must not vary, and memory is kept."""


def find_root() -> Path:
    """The folder of the `dvc.yaml` that governs the current directory."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "dvc.yaml").is_file():
            return folder
    raise CastawayError(f"there is no dvc.yaml in {here} or above it; run from a clone of the repository")


def silence(root: Path) -> None:
    """Switch telemetry off, and keep the tools' own files inside the repository."""
    os.environ.update(SILENT)
    os.environ.setdefault("PREFECT_HOME", str(main_root(root) / ".prefect"))
    os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{main_root(root) / 'mlflow.db'}")


def settle(params: Params) -> None:
    """Make a stage reproducible, and keep it off the network where the model is made here."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(params.threads)
    for name, value in {**STEADY, **waiting(params)}.items():
        os.environ.setdefault(name, value)
    if params.base.model == "tiny":
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["HF_DATASETS_OFFLINE"] = "1"


def waiting(params: Params) -> dict[str, str]:
    """Awake if for each of several threads a core is idle now, as it is not where another training runs."""
    if params.threads == 1:
        return ASLEEP
    wanted = params.threads * max(params.for_run(run).ppo.processes for run in params.tasks)
    return AWAKE if round(idle_cores()) >= wanted else ASLEEP


def idle_cores() -> float:
    """How many cores do nothing right now, all others' processes and virtual machines considered."""
    before, began = psutil.cpu_times().idle, monotonic()
    sleep(WATCHED_SECONDS)
    return float(psutil.cpu_times().idle - before) / (monotonic() - began)


def start_afresh() -> None:
    """Start this process again if it was not started with the variables that have to be there from the start."""
    if any(os.environ.get(name) != value for name, value in FROM_THE_START.items()):
        os.environ.update(FROM_THE_START)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def main_root(root: Path) -> Path:
    """The repository that remembers: `dvc exp run --temp` works in a copy, and reports to the original."""
    return Path(os.environ.get("DVC_ROOT", root))
