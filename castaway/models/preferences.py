"""Preference learning on a model's own replies and their corrections, by TRL's DPOTrainer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from trl import DPOConfig, DPOTrainer

from castaway.config.sections import CorrectionSftParams
from castaway.models.tokens import ChatTokenizer
from castaway.models.trainers import keep_precision, trained_weights
from castaway.models.training import CurveCallback, Log, section_settings

PreferenceRow = dict[str, list[int]]
"""`prompt_ids`, and the better and the worse reply, `chosen_ids` and `rejected_ids`, each with its stop token."""


class TokenPreferenceTrainer(DPOTrainer):
    """DPO (Rafailov et al. 2023) on rows of tokens.

    TRL would make its own from chat messages; a template that writes a prompt otherwise before a reply than alone would
    give other tokens than those that the policy samples.
    """

    def _prepare_dataset(self, dataset: Any, *arguments: Any, **named: Any) -> Any:
        return dataset


def preference_trainer(
    model: Any,
    tokenizer: ChatTokenizer,
    rows: Sequence[PreferenceRow],
    params: CorrectionSftParams,
    *,
    scratch: Path,
    seed: int,
    device: str,
    gradient_checkpointing: bool,
    log: Log,
) -> TokenPreferenceTrainer:
    """The trainer of an adapter on pairs of replies; the reference is the adapter as it is now.

    Args:
        model: has the adapter that is trained.
        tokenizer: of the model.
        rows: prompts, each with two replies.
        params: epochs, batch size, learning rate, beta and the size of a pass.
        scratch: folder for the trainer's temporary files.
        seed: of the order of the rows and of everything random.
        device: as in `params.yaml`.
        gradient_checkpointing: whether the backward pass computes hidden states again.
        log: adds points to the stage's curves.
    """
    most = max(len(row["prompt_ids"]) + max(len(row["chosen_ids"]), len(row["rejected_ids"])) for row in rows)
    # A row of the trainer is a pair of replies.
    settings = section_settings(
        params, 2 * most, scratch, seed=seed, device=device, gradient_checkpointing=gradient_checkpointing
    )
    before = trained_weights(model)
    trainer = TokenPreferenceTrainer(
        model=model,
        args=DPOConfig(**settings, max_length=None, beta=params.beta),
        train_dataset=Dataset.from_list(list(rows)),
        processing_class=tokenizer.tokenizer,
        callbacks=[CurveCallback(log, {"loss": "loss", "rewards/accuracies": "accuracy", "rewards/margins": "margin"})],
    )
    keep_precision(trainer.model, before)
    return trainer
