"""The `game` section of MAROONED in `params.yaml`."""

from __future__ import annotations

from typing import Literal

from castaway.config.section import Fraction, Section


class MaroonedParams(Section):
    """The scenario, its rendering, and how often the policy plays the traitor."""

    scenario: Literal["skiff", "classic"]
    rendering: Literal["compact", "full"]
    traitor_share: Fraction
    """Share of the training episodes in which the policy plays the traitor against a scripted crew."""
