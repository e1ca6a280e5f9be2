"""The context that every stage gets: its parameters, its folders, and functions to report to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from castaway.config.bases import Dtype
from castaway.config.params import Params

Log = Callable[[int, Mapping[str, float]], None]
"""`log(step, values)`: adds one point to each of the stage's curves."""

Trace = Callable[[str, Mapping[str, Any], Mapping[str, Any], float, float], None]
"""`trace(name, inputs, outputs, began, ended)`: records one external call; times in seconds since 1970."""


def log_nothing(step: int, values: Mapping[str, float]) -> None:
    """A `Log` that does nothing, for all processes but the first, which reports for all."""


def trace_nothing(name: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], began: float, ended: float) -> None:
    """A `Trace` that does nothing, for all processes but the first, which reports for all."""


@dataclass(frozen=True)
class Context:
    """One execution of one stage."""

    root: Path
    """The root of the repository."""
    params: Params
    """The parameters, with the overrides of the run applied."""
    run: str
    """The name of the run, a key of `tasks` in params.yaml; for the stage `base`, the name of the base model."""
    base: str
    """The name of the base model that the run starts from."""
    stage: str
    log: Log
    scratch: Path
    """Folder that a killed stage resumes from. DVC does not know it; it belongs to one stage key, and is deleted after
    success."""
    observe: Log
    """As `log`, but only to MLflow: for values that may differ between runs with the same result."""
    trace: Trace
    """Records one external call with its inputs and outputs, only to MLflow."""
    device: str
    """The kind of device that the stage runs on: `cpu`, `cuda` or `mi300x`."""
    sharded: bool = field(default=False, kw_only=True)
    """Whether the processes that train together keep only a part of the base model each."""
    processes: int = field(default=1, kw_only=True)
    """How many processes may share the jobs of the stage beside each other; 1 on a GPU."""

    @property
    def output(self) -> Path:
        """The stage's output folder: empty at the start, and equal in every byte for equal inputs at the end."""
        return self.folder(self.stage)

    @property
    def dtype(self) -> Dtype:
        """The precision in which the weights of the base model are held and computed with."""
        return self.params.bases[self.base].dtype

    @property
    def gradient_checkpointing(self) -> bool:
        """Whether training computes hidden states again in the backward pass instead of keeping them."""
        return self.params.bases[self.base].gradient_checkpointing

    @property
    def torch_device(self) -> str:
        """The name of `device` in PyTorch, which calls AMD's GPUs `cuda` too."""
        return "cpu" if self.device == "cpu" else "cuda"

    @property
    def verdicts(self) -> Path:
        """Path of the cache of a served teacher's answers, which is shared by all stages and kept after them."""
        return self.root / "scratch" / "verdicts.sqlite"

    @property
    def packages(self) -> Path:
        """Path of the folder of fetched wheels, which is kept, so that each is fetched once."""
        return self.root / "scratch" / "packages"

    @property
    def vllm(self) -> Path:
        """Path of the virtual environment with vLLM."""
        return self.root / ".venv-vllm"

    def folder(self, stage: str) -> Path:
        """The output folder of `stage` for this run; for `base`, that of its base model."""
        return self.root / "data" / (self.base if stage == "base" else self.run) / stage
