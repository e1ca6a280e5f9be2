"""TRL's trainers, with the adapter folded into the weights during each forward pass: the same losses, in less time."""

from __future__ import annotations

from typing import Any

from trl import RewardTrainer, SFTTrainer

from castaway.models.folded import folded


class FoldedSFTTrainer(SFTTrainer):
    """Supervised fine-tuning of an adapter."""

    def compute_loss(self, model: Any, *arguments: Any, **named: Any) -> Any:
        """TRL's loss."""
        with folded(model):
            return super().compute_loss(model, *arguments, **named)


class FoldedRewardTrainer(RewardTrainer):
    """Training of a reward model with an adapter on pairs of answers."""

    def compute_loss(self, model: Any, *arguments: Any, **named: Any) -> Any:
        """TRL's loss."""
        with folded(model):
            return super().compute_loss(model, *arguments, **named)
