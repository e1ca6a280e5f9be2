"""TRL's trainers, with the adapter folded into the weights during each forward pass: the same losses, in less time.

The loss of SFT is worked out from the hidden states before the labels alone: TRL makes the logits of prompts as well,
a third of the time for a vocabulary of 49,152 and two fifths for the tiny model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from trl import RewardTrainer, SFTConfig, SFTTrainer

from castaway.config.sections import CorrectionSftParams, SftParams
from castaway.models.folded import folded
from castaway.models.four_bit import is_four_bit
from castaway.models.label_losses import label_losses
from castaway.models.products import use_for_head
from castaway.models.rows import SMALL
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import (
    CurveCallback,
    LabelledRow,
    Log,
    ReplyCollator,
    longest,
    section_settings,
)


class FoldedSFTTrainer(SFTTrainer):
    """Supervised fine-tuning of an adapter."""

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The mean of -log p over the labels, in nats."""
        with folded(model):
            losses, right = label_losses(model.get_base_model(), inputs)
        self._metrics["train"]["mean_token_accuracy"].append(right.float().mean().item())
        return losses.sum() / (len(losses) if num_items_in_batch is None else num_items_in_batch)


def reply_trainer(
    model: Any,
    tokenizer: ChatTokenizer,
    rows: Sequence[LabelledRow],
    params: SftParams | CorrectionSftParams,
    *,
    scratch: Path,
    seed: int,
    device: str,
    gradient_checkpointing: bool,
    log: Log,
    adapter: LoraConfig | None = None,
) -> FoldedSFTTrainer:
    """The trainer of an adapter on rows of prompts and replies, with its curves.

    Args:
        model: has the adapter that is trained, unless `adapter` says to add a new one.
        tokenizer: of the model.
        rows: prompts and replies with labels.
        params: epochs, batch size, learning rate and the size of a pass.
        scratch: folder for the trainer's temporary files.
        seed: of the order of the rows and of everything random.
        device: as in `params.yaml`.
        gradient_checkpointing: whether the backward pass computes hidden states again.
        log: adds points to the stage's curves.
        adapter: the configuration of a new adapter.
    """
    settings = section_settings(
        params, longest(rows), scratch, seed=seed, device=device, gradient_checkpointing=gradient_checkpointing
    )
    before = trained_weights(model)
    trainer = FoldedSFTTrainer(
        model=model,
        args=SFTConfig(**settings, max_length=None, packing=False),
        train_dataset=Dataset.from_list(list(rows)),
        data_collator=ReplyCollator(model, tokenizer.pad),
        processing_class=tokenizer.tokenizer,
        peft_config=adapter,
        callbacks=[CurveCallback(log, {"loss": "loss", "mean_token_accuracy": "token_accuracy"})],
    )
    keep_precision(trainer.model, before)
    if model.config.hidden_size >= SMALL:
        use_for_head(trainer.model.get_base_model())
    return trainer


def trained_weights(model: Any) -> dict[torch.nn.Parameter, torch.Tensor]:
    """Copies of the weights of a model in 4 bits that are trained; nothing of other models."""
    if not is_four_bit(model):
        return {}
    return {weight: weight.detach().clone() for weight in model.parameters() if weight.requires_grad}


def keep_precision(model: Any, before: Mapping[torch.nn.Parameter, torch.Tensor]) -> None:
    """Keep in float32 what is trained beside weights of 4 bits: TRL's trainers round it to bfloat16.

    Args:
        model: of the trainer.
        before: the weights that were there before the trainer was made.
    """
    if is_four_bit(model):
        for weight in model.parameters():
            if weight.requires_grad:
                weight.data = before.get(weight, weight.data).float()


class FoldedRewardTrainer(RewardTrainer):
    """Training of a reward model with an adapter on pairs of answers."""

    def compute_loss(self, model: Any, *arguments: Any, **named: Any) -> Any:
        """TRL's loss."""
        with folded(model):
            return super().compute_loss(model, *arguments, **named)
