"""The `game` of a run of OpenSpiel in `params.yaml`."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from castaway.config.section import Fraction, PositiveInteger, Section


class OpenSpielStageParams(Section):
    """A stage of the curriculum of the `openspiel` task."""

    games: Annotated[list[str], Field(min_length=1)]
    """A game with one of its variants, `connect_four 4x5`, or with all of them, `connect_four`."""
    opponents: Annotated[list[str], Field(min_length=1)]
    """Whom they are played against, in turn: `random`; `mcts-N`, a tree search of N simulations a move; or `self`, an
    earlier policy of the student (`ppo.self_play`)."""
    threshold: Fraction
    """Share of successes from which the next stage is played."""
    floor: Fraction
    """Share of successes under which the stage before is played again."""
    window: PositiveInteger
    """Episodes in a row over which the share is taken."""

    @model_validator(mode="after")
    def _sensible(self) -> OpenSpielStageParams:
        for name in self.opponents:
            if not re.fullmatch(r"random|self|mcts-([2-9]|[1-9]\d+)", name):
                raise ValueError(f"opponents is {name!r}, expected random, self, or mcts-N with 2 simulations or more")
        if self.floor > self.threshold:
            raise ValueError(f"floor is {self.floor}, expected at most the threshold ({self.threshold})")
        return self


class OpenSpielParams(Section):
    """The curriculum of the `openspiel` task: three stages, which training moves along by itself."""

    rendering: Literal["full", "compact", "assisted"]
    """In OpenSpiel's own text with the rules, in few words, or in those and with threats named."""
    easy: OpenSpielStageParams
    medium: OpenSpielStageParams
    hard: OpenSpielStageParams

    @property
    def stages(self) -> dict[str, OpenSpielStageParams]:
        """By name, in order."""
        return {"easy": self.easy, "medium": self.medium, "hard": self.hard}
