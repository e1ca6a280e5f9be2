"""The sections of `params.yaml` that are about one task each: its game, and how it is told."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from castaway.config.section import Fraction, NonNegative, PositiveInteger, Section


class MaroonedParams(Section):
    """The game of the `marooned` task."""

    scenario: Literal["skiff", "classic"]
    rendering: Literal["compact", "full"]


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


class StrictbotParams(Section):
    """The questions of the `strictbot` task, and what an answer earns beside the reward model's score."""

    rendering: Literal["compact", "full"]
    """The full one tells an instruct model what to do; a tiny model learns it."""
    factual_weight: NonNegative
    """Paid for the fact, word for word, without its opposite."""
    constructiveness_weight: NonNegative
    """Paid for something to go on with, beside the fact."""
    toxicity_weight: NonNegative
    """Taken for abuse, times how likely it is some."""
    toxicity_model: str | None
    """null for the library that comes with the project, or a Hugging Face classifier with a label `toxic`: a folder, a
    name, or `NAME@COMMIT`."""
    inconsistency_weight: NonNegative
    """Taken for the tones of two levels in one answer."""
