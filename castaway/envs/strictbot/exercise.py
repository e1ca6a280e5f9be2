"""An exercise: a question with an answer at each level, as a served teacher writes it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Words = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[ -~]+$")]


class Exercise(BaseModel):
    """One question with its answers, as the teacher writes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    asked: Words
    fact: Words
    false: Words
    help: Words
    challenge: Words
    correction: Words

    @property
    def answers(self) -> dict[int, str]:
        """Level to answer."""
        return {1: self.help, 2: self.challenge, 3: self.correction}


def demand(held: bool, otherwise: str) -> None:
    """Raise ValueError with the text `otherwise` if something does not hold."""
    if not held:
        raise ValueError(otherwise)
