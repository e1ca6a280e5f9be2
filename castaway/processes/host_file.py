"""What is true of this host alone: `host.yaml` in the repository, which neither git nor any result depends on.

For example:

    pins:                     # where stages run here instead of where dvc.yaml says
      ppo: mi300x             # this stage of every run
      evaluate@strictbot: cpu
    gpus: [2, 3]              # the GPUs that may be used; without the key, all
    pools:                    # stages that workers on other machines build
      ppo@marooned: mi300x
    checkpoints: /mnt/shared  # where killed stages resume from, instead of scratch/: a folder that several hosts reach
    torchrun:                 # several processes that train together, started by torchrun; names as its own
      ppo@marooned: {nproc_per_node: 8, max_restarts: 3, shard: true}   # shard: each keeps a part of the model
    vllm:                     # the GPUs of a stage's vLLM server, with `sampler: vllm`; names as its own
      ppo: {tensor_parallel_size: 2, data_parallel_size: 4}
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from castaway.config.errors import CastawayError
from castaway.config.mistakes import explain
from castaway.config.section import DeviceKind, Natural, PositiveInteger, Section
from castaway.config.yaml_file import read_yaml

Value = TypeVar("Value")
FILE = "host.yaml"
TOGETHER = "ppo"  # the stage that several processes can train together


class Torchrun(Section):
    nproc_per_node: PositiveInteger = 1
    """Processes on this host; on GPUs each has one of its own."""
    max_restarts: Natural = 0
    """How often all of them are started again, from the newest checkpoint, after one has died."""
    nnodes: PositiveInteger = 1
    """Hosts. On each of them the same stage is started; this file may differ in `node_rank` alone."""
    node_rank: Natural = 0
    """This host's number. Host 0 reports and writes the output."""
    master_addr: str = "127.0.0.1"
    """Address of host 0."""
    master_port: PositiveInteger | None = None
    """A free port of host 0; null: torchrun chooses one, which the processes of a single host can do with."""
    shard: bool = False
    """Whether each process keeps only its part of the base model, which takes less memory and more time. Not a name of
    torchrun's."""

    @model_validator(mode="after")
    def _hosts(self) -> Self:
        if self.node_rank >= self.nnodes:
            raise ValueError(f"node_rank is {self.node_rank}, expected less than nnodes, {self.nnodes}")
        if self.nnodes > 1 and self.master_port is None:
            raise ValueError("master_port is null, expected a port of host 0 if nnodes is above 1")
        if self.shard and self.nnodes * self.nproc_per_node == 1:
            raise ValueError("shard is true, expected several processes: nproc_per_node or nnodes above 1")
        return self


class Vllm(Section):
    tensor_parallel_size: PositiveInteger = 1
    """GPUs that each hold a part of every layer: for a model that is too large or too slow on one."""
    data_parallel_size: PositiveInteger = 1
    """Copies of the model, which share the prompts."""

    @property
    def gpus(self) -> int:
        return self.tensor_parallel_size * self.data_parallel_size


class Host(Section):
    pins: dict[str, DeviceKind] = Field(default_factory=dict)
    """Kind of device by stage (`ppo`) or address (`ppo@marooned`); the address counts more."""
    gpus: Annotated[list[Natural], Field(min_length=1)] | None = None
    """Indices of the GPUs that may be used, as the driver of the GPUs counts them."""
    pools: dict[str, str] = Field(default_factory=dict)
    """Work pool of Prefect by stage or address."""
    checkpoints: str | None = None
    """Folder for what a killed stage resumes from; null: `scratch` in the repository."""
    torchrun: dict[str, Torchrun] = Field(default_factory=dict)
    """Processes that train together, by stage or address."""
    vllm: dict[str, Vllm] = Field(default_factory=dict)
    """How the vLLM server of a stage that draws replies uses several GPUs, by stage or address."""

    @field_validator("torchrun")
    @classmethod
    def _can_train_together(cls, value: dict[str, Torchrun]) -> dict[str, Torchrun]:
        for address in value:
            if address.partition("@")[0] != TOGETHER:
                raise ValueError(f"{address} is trained by one process, expected {TOGETHER} or {TOGETHER}@RUN")
        return value

    def pool(self, address: str) -> str:
        return _of(self.pools, address, "")

    def pin(self, address: str, otherwise: str) -> str:
        """The kind of device that a stage runs on here, if dvc.yaml says `otherwise`."""
        return _of(self.pins, address, otherwise)

    def processes(self, address: str) -> Torchrun:
        """How torchrun starts the processes of a stage; one alone needs no torchrun."""
        return _of(self.torchrun, address, Torchrun())

    def served(self, address: str) -> Vllm:
        """How the vLLM server of a stage uses GPUs."""
        return _of(self.vllm, address, Vllm())


def _of(table: Mapping[str, Value], address: str, otherwise: Value) -> Value:
    return table.get(address, table.get(address.partition("@")[0], otherwise))


def load_host(root: Path) -> Host:
    """The file of the repository at `root`; without one, nothing is special. A mistake is a CastawayError."""
    content = read_yaml(root / FILE) if (root / FILE).exists() else None
    if content is None:
        return Host()
    if not isinstance(content, dict):
        raise CastawayError(f"{FILE} holds a {type(content).__name__}, expected a mapping")
    try:
        return Host.model_validate(content)
    except ValidationError as error:
        raise CastawayError(f"{FILE}: {explain(Host, error)}") from None
