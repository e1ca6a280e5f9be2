"""What is true of this host alone: `host.yaml` in the repository, which neither git nor any result depends on.

For example:

    pins:                     # where stages run here instead of where dvc.yaml says
      ppo: mi300x             # this stage of every run
      evaluate@strictbot: cpu
    gpus: [2, 3]              # the GPUs that may be used; without the key, all
    pools:                    # stages that workers on other machines build
      ppo@marooned: mi300x
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from castaway.config.mistakes import explain
from castaway.config.section import NaturalNumber, Section
from castaway.config.yaml_file import read_yaml
from castaway.errors import CastawayError

FILE = "host.yaml"


class Host(Section):
    """The whole of `host.yaml`."""

    pins: dict[str, Literal["cpu", "cuda", "mi300x"]] = Field(default_factory=dict)
    """Kind of device by stage (`ppo`) or address (`ppo@marooned`); the address counts more."""
    gpus: Annotated[list[NaturalNumber], Field(min_length=1)] | None = None
    """Indices of the GPUs that may be used, as the driver of the GPUs counts them."""

    pools: dict[str, str] = Field(default_factory=dict)
    """Work pool of Prefect by stage or address."""

    def pool(self, address: str) -> str:
        """The work pool that a stage is sent to; empty for none."""
        return self.pools.get(address, self.pools.get(address.partition("@")[0], ""))

    def pin(self, address: str, otherwise: str) -> str:
        """The kind of device that a stage runs on here, if dvc.yaml says `otherwise`."""
        return self.pins.get(address, self.pins.get(address.partition("@")[0], otherwise))


def load_host(root: Path) -> Host:
    """The file of the repository at `root`; without one, nothing is special.

    Raises:
        CastawayError: one line that names the key, the value and what was expected.
    """
    content = read_yaml(root / FILE) if (root / FILE).exists() else None
    if content is None:
        return Host()
    if not isinstance(content, dict):
        raise CastawayError(f"{FILE} holds a {type(content).__name__}, expected a mapping")
    try:
        return Host.model_validate(content)
    except ValidationError as error:
        raise CastawayError(f"{FILE}: {explain(Host, error)}") from None
