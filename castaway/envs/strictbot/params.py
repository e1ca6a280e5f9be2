"""The `game` of a run of STRICTBOT in `params.yaml`."""

from __future__ import annotations

from typing import Literal

from castaway.config.section import NonNegative, Section


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
