"""The context that every stage gets: its parameters, its folders, and functions to report to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from castaway.config.bases import Dtype
from castaway.config.params import Params, UndeclaredError
from castaway.processes.hardware import torch_name

Log = Callable[[int, Mapping[str, float]], None]  # `log(step, values)`: adds one point to each of the stage's curves

Trace = Callable[[str, Mapping[str, Any], Mapping[str, Any], float, float], None]
"""`trace(name, inputs, outputs, began, ended)`: records one external call; times in seconds since 1970."""

Tag = Callable[[str, str], None]  # `tag(name, value)`: a tag of the stage's run, or its new value


def nothing(*_: object) -> None:
    """A `Log`, a `Trace` and a `Tag` that do nothing, for all processes but the first, which reports for all."""


@dataclass(frozen=True, kw_only=True)
class Context:
    root: Path
    params: Params  # the parameters, with the overrides of the run applied
    run: str  # the name of the run, a key of `tasks` in params.yaml; for the stage `base`, the name of the base model
    base: str  # the name of the base model that the run starts from
    stage: str
    scratch: Path
    """Folder that a killed stage resumes from. DVC does not know it; it belongs to one stage key, and is deleted after
    success."""
    device: str = "cpu"  # the kind of device that the stage runs on
    log: Log = nothing
    observe: Log = nothing  # as `log`, but only to MLflow: for values that may differ between runs with the same result
    trace: Trace = nothing  # records one external call with its inputs and outputs, only to MLflow
    tag: Tag = nothing  # only to MLflow
    sharded: bool = False  # whether the processes that train together keep only a part of the base model each
    processes: int = 1  # how many processes may share the jobs of the stage in parallel; 1 on a GPU
    vllm_size: tuple[int, int] = (1, 1)
    """Of the vLLM server of this stage: GPUs that hold a copy of the model together, and copies."""
    original: Path | None = None
    """The root of the original repository, for an experiment in a temporary copy; None for `root`."""
    readable: frozenset[str] | None = None
    """Paths of the data that dvc.yaml lists for the stage, which may read no other; None for any."""

    @property
    def output(self) -> Path:
        """The stage's output folder: empty at the start, and equal in every byte for equal inputs at the end."""
        return self.folder(self.stage)

    def silent(self) -> Self:
        return replace(self, log=nothing, observe=nothing, trace=nothing, tag=nothing)

    @property
    def dtype(self) -> Dtype:
        return self.params.bases[self.base].dtype

    @property
    def gradient_checkpointing(self) -> bool:
        return self.params.bases[self.base].gradient_checkpointing

    @property
    def training(self) -> dict[str, Any]:
        """Settings of every trainer of an adapter (`castaway.models.training.trainer_settings`)."""
        own = {"scratch": self.scratch, "seed": self.params.seed, "device": self.device}
        return {**own, "gradient_checkpointing": self.gradient_checkpointing}

    @property
    def torch_device(self) -> str:
        """The name of `device` in PyTorch."""
        return torch_name(self.device)

    @property
    def verdicts(self) -> Path:
        """Path of the cache of a served teacher's answers, which cost money: all stages share it, and all copies."""
        return (self.original or self.root) / "scratch" / "verdicts.sqlite"

    @property
    def checkpoints(self) -> Path:
        """Path of the folder of adapters that PPO leaves on its way, if it is asked to."""
        return (self.original or self.root) / "scratch" / "checkpoints" / self.run

    @property
    def packages(self) -> Path:
        """Path of the folder of fetched wheels, which is kept, so that each is fetched once."""
        return (self.original or self.root) / "scratch" / "packages"

    @property
    def vllm(self) -> Path:
        return (self.original or self.root) / ".venv-vllm"

    def folder(self, stage: str) -> Path:
        """The output folder of `stage` for this run; for `base`, that of its base model.

        Raises:
            UndeclaredError: dvc.yaml does not list it for this stage, so DVC would keep the result after a change.
        """
        path = Path("data", self.base if stage == "base" else self.run, stage)
        if self.readable is not None and stage != self.stage and path.as_posix() not in self.readable:
            raise UndeclaredError(f"{self.stage} reads {path}, which dvc.yaml does not list in its `deps`")
        return self.root / path
