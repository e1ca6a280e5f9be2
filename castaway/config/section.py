"""What a section of `params.yaml` is made of: a frozen, strict model, and the kinds of numbers in it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

PositiveInteger = Annotated[int, Field(gt=0)]
NaturalNumber = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """A section of `params.yaml`: immutable, and strict about unknown keys and types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class StageSection(Section):
    """A section that drives the stage of its name; a run of a task may set keys of it differently."""
