"""The `game` section of OpenSpiel in `params.yaml`."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from castaway.config.section import Fraction, PositiveInteger, Section
from castaway.envs.openspiel.tables import tables_named
from castaway.errors import CastawayError


class OpenSpielStageParams(Section):
    """A curriculum stage of the `openspiel` task."""

    games: Annotated[list[str], Field(min_length=1)]
    """Games: with one variant, such as `connect_four 4x5`, or with all variants, such as `connect_four`."""
    opponents: Annotated[list[str], Field(min_length=1)]
    """The opponents, in rotation: `random`; `mcts-N`, a tree search with N simulations per move; or `self`, an earlier
    version of the policy (`ppo.self_play`)."""
    threshold: Fraction
    """Success rate from which on the next stage is played."""
    floor: Fraction
    """Success rate below which the previous stage is played again."""
    window: PositiveInteger
    """Number of most recent episodes that the success rate is taken over."""

    @model_validator(mode="after")
    def _sensible(self) -> OpenSpielStageParams:
        _require_games("games", self.games)
        for name in self.opponents:
            if not re.fullmatch(r"random|self|mcts-([2-9]|[1-9]\d+)", name):
                raise ValueError(f"opponents is {name!r}, expected random, self, or mcts-N with 2 simulations or more")
        if self.floor > self.threshold:
            raise ValueError(f"floor is {self.floor}, expected at most the threshold ({self.threshold})")
        return self


class OpenSpielParams(Section):
    """Rendering and curriculum of the `openspiel` task: three stages, which follow one another by success rate."""

    rendering: Literal["full", "compact", "assisted"]
    """`full`: rules, boards as people draw them, moves by name; `compact`: few words; `assisted`: and threats."""
    easy: OpenSpielStageParams
    medium: OpenSpielStageParams
    hard: OpenSpielStageParams
    unseen: list[str] = Field(default=[])
    """Games or variants, named as in `games`, that no stage plays: for evaluation alone, against random opponents."""

    @model_validator(mode="after")
    def _unseen_games(self) -> OpenSpielParams:
        _require_games("unseen", self.unseen)
        return self

    @property
    def stages(self) -> dict[str, OpenSpielStageParams]:
        """The stages by name, in order."""
        return {"easy": self.easy, "medium": self.medium, "hard": self.hard}


def _require_games(key: str, names: list[str]) -> None:
    """Check that the games and variants exist.

    Raises:
        ValueError: one does not; in words that go on from the path of the section.
    """
    try:
        tables_named(names)
    except CastawayError as error:
        raise ValueError(f"{key} is wrong: {error}") from None
