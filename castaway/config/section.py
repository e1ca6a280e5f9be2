"""The base classes of the sections of `params.yaml`, and the number types that they use."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PositiveInteger = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
DeviceKind = Literal["cpu", "cuda", "mi300x", "mps"]
"""What a stage can be pinned to (`castaway/processes/hardware.py`); `mps` is the GPU of a Mac."""


class Section(BaseModel):
    """A section of `params.yaml`: immutable; unknown keys and wrong types are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class StageSection(Section):
    """The settings of the pipeline stage with the same name; a run can override its keys."""
