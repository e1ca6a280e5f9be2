"""The policies of a run, in the order in which they come about."""

from __future__ import annotations

POLICIES: dict[str, tuple[str, ...]] = {
    "base": (),
    "sft": ("sft",),
    "ppo": ("sft", "ppo"),
    "final": ("sft", "correction_sft"),
}
"""By name, the stages whose adapters the policy is the base model with."""
