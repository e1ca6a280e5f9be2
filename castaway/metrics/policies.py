"""The policies of a run, in the order in which they come about."""

from __future__ import annotations

POLICIES = ("base", "sft", "ppo", "final")
"""The base model, after SFT, after PPO, and after SFT on corrections."""
CHOSEN_FROM = ("sft", "final")
"""The policies that also play with best-of-n sampling: before reinforcement learning, and in the end."""
