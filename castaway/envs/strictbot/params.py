"""The `game` section of STRICTBOT in `params.yaml`."""

from __future__ import annotations

from typing import Literal

from castaway.config.section import NonNegative, Section


class StrictbotParams(Section):
    """The rendering of questions, and the weights of the reward terms, which are added to the reward model's score."""

    rendering: Literal["compact", "full"]
    """`full` asks and answers in plain English, for people and instruct models; `compact` is for a tiny model."""
    factual_weight: NonNegative
    """Reward for naming the fact, word for word, and nothing false."""
    constructiveness_weight: NonNegative
    """Reward for a constructive sentence around the fact."""
    toxicity_weight: NonNegative
    """Cost of abuse, multiplied by its probability."""
    toxicity_model: str | None
    """null: the library that is installed with the project. Otherwise a Hugging Face classifier with a label `toxic`: a
    folder, a name, or `NAME@COMMIT`."""
    inconsistency_weight: NonNegative
    """Cost of mixing the tones of different levels in one answer."""
