"""The renderings of STRICTBOT, each as one object."""

from __future__ import annotations

from typing import Literal

from castaway.envs.strictbot.compact.language import compact
from castaway.envs.strictbot.english.language import english
from castaway.envs.strictbot.language import Language

Rendering = Literal["compact", "full"]


def language_of(rendering: Rendering) -> Language:
    """The questions and answers of a rendering; `full` is in plain English."""
    return english() if rendering == "full" else compact()
