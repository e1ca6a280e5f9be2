"""TRL's trainers, with the adapter folded into the weights during each forward pass: the same losses, in less time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from peft import LoraConfig
from trl import RewardTrainer, SFTConfig, SFTTrainer

from castaway.config.sections import CorrectionSftParams, SftParams
from castaway.models.folded import folded
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import (
    CurveCallback,
    LabelledRow,
    Log,
    ReplyCollator,
    longest,
    rows_per_pass,
    trainer_settings,
)


class FoldedSFTTrainer(SFTTrainer):
    """Supervised fine-tuning of an adapter."""

    def compute_loss(self, model: Any, *arguments: Any, **named: Any) -> Any:
        """TRL's loss."""
        with folded(model):
            return super().compute_loss(model, *arguments, **named)


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
    settings = trainer_settings(
        scratch,
        seed=seed,
        device=device,
        epochs=params.epochs,
        batch_size=params.batch_size,
        learning_rate=params.learning_rate,
        rows_per_pass=rows_per_pass(params.batch_size, longest(rows), params.tokens_per_pass),
        gradient_checkpointing=gradient_checkpointing,
    )
    return FoldedSFTTrainer(
        model=model,
        args=SFTConfig(**settings, max_length=None, packing=False),
        train_dataset=Dataset.from_list(list(rows)),
        data_collator=ReplyCollator(model, tokenizer.pad),
        processing_class=tokenizer.tokenizer,
        peft_config=adapter,
        callbacks=[CurveCallback(log, {"loss": "loss", "mean_token_accuracy": "token_accuracy"})],
    )


class FoldedRewardTrainer(RewardTrainer):
    """Training of a reward model with an adapter on pairs of answers."""

    def compute_loss(self, model: Any, *arguments: Any, **named: Any) -> Any:
        """TRL's loss."""
        with folded(model):
            return super().compute_loss(model, *arguments, **named)
