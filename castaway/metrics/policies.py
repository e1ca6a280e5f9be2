"""The policies of a run, in the order in which the pipeline makes them."""

from __future__ import annotations

POLICIES: dict[str, tuple[str, ...]] = {
    "base": (),
    "sft": ("sft",),
    "ppo": ("sft", "ppo"),
    "final": ("sft", "correction_sft"),
}
"""For each policy, the stages whose adapters are merged into the base model, in this order."""
