"""Environment variables of every Castaway process: no telemetry, offline where possible, reproducible results.

They must be set before torch, transformers, DVC, MLflow or Prefect is imported: each reads its variables only once.
"""

import gc
import hashlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path
from urllib.request import getproxies

from castaway.config.bases import Base, HubParams
from castaway.config.errors import CastawayError
from castaway.config.params import Params
from castaway.processes.groups import is_member
from castaway.processes.host_file import load_host

SILENT = {
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "GRADIO_ANALYTICS_ENABLED": "False",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Variables that switch off the telemetry of the tools, and bars for reading a file."""

STEADY = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "TOKENIZERS_PARALLELISM": "false",
    # OpenMP's threads wait for each other asleep. Spinning, they save a twentieth of a training's time where each has a
    # core, and take ten times as long where another process has one of them.
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "0",
}
"""Variables for reproducible results and steady speed; a value that the user has set takes precedence."""
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
"""Without these, each library uses the widest instructions of the processor, and results differ in rounding."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # what no proxy can reach
OF_HOOKS: tuple[str, ...] = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
)
"""Of `git rev-parse --local-env-vars`, those that name a place; settings such as GIT_CONFIG_COUNT are the user's."""
RANKS = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun sets, and other schedulers too."""
OF_LAUNCHERS = ("ACCELERATE_", "PMI_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "MPI_LOCAL")
"""How the names begin by which `accelerate launch` and MPI say what a trainer is to do, and with whom."""

FROM_THE_START = {
    "PYTHONHASHSEED": "0",
    # If it is set, `python -m flows` runs the installed code: in a worktree or a copy for an experiment, another one's.
    "PYTHONSAFEPATH": "",
    # By default, malloc returns every large tensor to the kernel and requests it again: a third of a training's time.
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "67108864",
    # oneDNN keeps the code that it compiled for 1,024 shapes of products, 0.7 MB for each.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256",
}
"""Variables that a process reads only at its start: a fixed order of sets, whose code runs, and memory for reuse."""

IMPORTED = "CASTAWAY_IMPORTED"
"""Environment variable with the fingerprint of the variables that a forked stage's libraries were imported with."""
NEVER_READ = ("CASTAWAY_", "DVC_", "MLFLOW_", "PREFECT_", "PATH", "PWD", "OLDPWD", "SHLVL", "_")
"""How the names of variables begin that no library reads when it is imported."""


def find_root() -> Path:
    """The nearest folder with a `dvc.yaml`, from the current directory upwards; CastawayError if there is none."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "dvc.yaml").is_file():
            return folder
    raise CastawayError(f"there is no dvc.yaml in {here} or above it; run from a clone of the repository")


def prepare() -> None:
    """Make the environment that all child processes inherit. Each command begins with it, before it imports a library.

    Telemetry is switched off, servers of this host are asked without a proxy, and what was meant for another program is
    dropped. A user without a name is called by its number, and signs that a terminal cannot show become question marks.
    """
    os.environ.update(SILENT)
    for name in [name for name, value in os.environ.items() if of_another(name, value)]:
        del os.environ[name]
    if getproxies():
        names = [*os.environ.get("no_proxy", os.environ.get("NO_PROXY", "")).split(","), *LOOPBACK]
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(dict.fromkeys(filter(None, names)))
    try:
        getuser()
    except (KeyError, OSError):  # as in a container that runs with any number; DVC and others want a name
        os.environ["LOGNAME"] = str(os.getuid())
    take_any_text()


def of_another(name: str, value: str) -> bool:
    """Whether a variable is meant for another program, and would change what a stage does.

    A git hook names its own repository. A cluster's scheduler sets ranks; torchrun alone says which processes train
    together. Kubernetes names services: `VLLM_PORT=tcp://10.0.0.1:8000` would be read as a setting of vLLM. DVC has the
    user's shell run commands, which may be one that refuses, or reads them otherwise; without, it has `sh` do so.
    """
    if name in RANKS:
        return not is_member()
    return name in (*OF_HOOKS, "SHELL") or name.startswith(OF_LAUNCHERS) or (name.endswith("_PORT") and "://" in value)


def use_host(root: Path) -> None:
    """Keep MLflow's store inside the repository, unless another is named, and use only the GPUs of host.yaml."""
    os.environ.setdefault("MLFLOW_TRACKING_URI", store_of(root))
    gpus = load_host(main_root(root)).gpus
    if gpus is not None:
        amd = Path("/dev/kfd").exists()
        os.environ.setdefault("HIP_VISIBLE_DEVICES" if amd else "CUDA_VISIBLE_DEVICES", ",".join(map(str, gpus)))


def take_any_text() -> None:
    """What was typed in another encoding, or a terminal cannot show, becomes a question mark instead of an error."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def settled(params: Params, base: Base | None = None) -> dict[str, str]:
    """The variables for reproducible results of `base`; offline too, unless a base model comes from the Hub."""
    limits = {} if base and base.instructions == "all" else AVX2
    wanted = {**STEADY, **limits}
    online = any(isinstance(base, HubParams) for base in params.bases.values())
    return {
        **{name: os.environ.get(name, value) for name, value in wanted.items()},
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(params.threads)),
        **({} if online else {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}),
    }


def settle(params: Params, base: Base | None = None) -> None:
    """Set the variables of `settled`; start afresh if this stage's libraries were imported with others."""
    os.environ.update(settled(params, base))
    if os.environ.pop(IMPORTED, own := fingerprint(os.environ)) != own:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def fingerprint(variables: Mapping[str, str]) -> str:
    """A hash of the variables that a library may read when it is imported."""
    read = sorted(item for item in variables.items() if not item[0].startswith(NEVER_READ))
    return hashlib.sha256(repr(read).encode()).hexdigest()


def start_afresh() -> None:
    """Replace this process by a new one with the variables of `FROM_THE_START`, if it lacks them."""
    if any(os.environ.get(name) != value for name, value in FROM_THE_START.items()):
        os.environ.update(FROM_THE_START)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


@contextmanager
def importing() -> Iterator[None]:
    """Context for importing torch and the like without garbage collection, which is a third of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def store_of(root: Path) -> str:
    return f"sqlite:///{quoted(main_root(root) / 'mlflow.db')}"


def quoted(path: Path) -> str:
    """A path within a database's address, where SQLAlchemy reads escapes and a query."""
    return str(path).replace("%", "%25").replace("?", "%3F")


def main_root(root: Path) -> Path:
    """The original repository: `dvc exp run --temp` works in a copy, which reports to the original."""
    return Path(os.environ.get("DVC_ROOT", root))


CODE = ("castaway", "flows", "stages", "params.yaml", "dvc.yaml")
"""Where a file that git does not track can change what is built. Files that git ignores do not count."""
BUILT = (":(exclude)dvc.lock", ":(exclude)data")  # earlier stages have just written these, and they are not code


def revision(root: Path) -> str:
    """The current commit, with `+dirty` if tracked files differ from it or there is new code; `none` without git."""
    head = (git(root, "rev-parse", "--verify", "--quiet", "HEAD") or "none").strip()
    changed = git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *BUILT)
    new = git(root, "ls-files", "--others", "--exclude-standard", "--", *CODE)
    return f"{head}+dirty" if changed or new else head


def git(folder: Path, *arguments: str) -> str | None:
    """What a command of git prints in a folder; None if it fails, or git is not installed.

    CastawayError where git refuses the repository, since it belongs to another user.
    """
    try:
        done = run_git(folder, *arguments)
    except OSError:
        return None
    if done.returncode == 0:
        return done.stdout
    if remedy := re.search(r"git config .*safe\.directory.*", done.stderr):
        told = f"the repository {folder} belongs to another user, so git does not read it"
        raise CastawayError(f"{told}; `{remedy[0]}` allows it")
    return None


def run_git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in a folder; OSError without git."""
    # Names of files need not be UTF-8; such bytes come as Python has them in paths.
    return subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, encoding="utf-8", errors="surrogateescape", check=False
    )
