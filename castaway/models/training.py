"""Shared by all supervised stages: seeds, settings of Hugging Face trainers, and a callback for curves."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from castaway.config.sections import CorrectionSftParams, RewardModelParams, SftParams
from castaway.models.rows import as_tensors, attention_mask, step_of, trees_of


def seed_everything(seed: int, threads: int) -> None:
    """Set all random seeds and the number of torch threads, which together determine a result exactly."""
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # By default, deterministic algorithms fill each new tensor with NaN. TRL's loss allocates a wide tensor twice per
    # step and uses little of it with a small vocabulary; filling it would take longer than the rest of the step.
    torch.utils.deterministic.fill_uninitialized_memory = False


def trainer_settings(
    scratch: Path,
    *,
    seed: int,
    device: str,
    epochs: float,
    batch_size: int,
    learning_rate: float,
    rows_per_pass: int | None = None,
    gradient_checkpointing: bool = False,
) -> dict[str, Any]:
    """Arguments for any Hugging Face trainer, which then neither saves checkpoints nor reports by itself.

    Args:
        scratch: folder for the trainer's temporary files.
        seed: of the order of the data and of everything random in training.
        device: `cpu`, or another kind for a GPU.
        epochs: passes over the data.
        batch_size: rows per step.
        learning_rate: at the peak, after 10 steps of warm-up; then it falls as a cosine.
        rows_per_pass: rows in one forward and backward pass, a divisor of the batch size; None: all of a step.
        gradient_checkpointing: whether the backward pass computes hidden states again instead of keeping them.
    """
    on_gpu, rows = device != "cpu", rows_per_pass or batch_size
    return {
        "output_dir": str(scratch / "trainer"),
        "seed": seed,
        "data_seed": seed,
        "use_cpu": not on_gpu,
        # The model's own precision: adapters and optimiser are in float32 whatever that is.
        "bf16": False,
        "fp16": False,
        "gradient_checkpointing": gradient_checkpointing,
        "num_train_epochs": epochs,
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": batch_size // rows,
        "per_device_eval_batch_size": 4 * rows,
        "learning_rate": learning_rate,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 10,
        "weight_decay": 0.0,
        "logging_steps": 10,
        "save_strategy": "no",
        "report_to": [],
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": on_gpu,
    }


def section_settings(
    params: SftParams | RewardModelParams | CorrectionSftParams,
    longest: int,
    scratch: Path,
    *,
    seed: int,
    device: str,
    gradient_checkpointing: bool,
) -> dict[str, Any]:
    """`trainer_settings` of a section of `params.yaml`.

    Args:
        params: epochs, batch size, learning rate and the size of a pass.
        longest: tokens of the longest row.
        scratch: folder for the trainer's temporary files.
        seed: of the order of the data and of everything random in training.
        device: `cpu`, or another kind for a GPU.
        gradient_checkpointing: whether the backward pass computes hidden states again instead of keeping them.
    """
    return trainer_settings(
        scratch,
        seed=seed,
        device=device,
        epochs=params.epochs,
        batch_size=params.batch_size,
        learning_rate=params.learning_rate,
        rows_per_pass=rows_per_pass(params.batch_size, longest, params.tokens_per_pass),
        gradient_checkpointing=gradient_checkpointing,
    )


def rows_per_pass(batch_size: int, longest: int, tokens_per_pass: int) -> int:
    """The largest divisor of the batch size with which a pass has at most `tokens_per_pass` tokens, and at least 1.

    Args:
        batch_size: rows of a step of the optimiser.
        longest: tokens of the longest row.
        tokens_per_pass: of one forward and backward pass, with padding.
    """
    return max(
        rows
        for rows in range(1, batch_size + 1)
        if batch_size % rows == 0 and (rows == 1 or rows * longest <= tokens_per_pass)
    )


Log = Callable[[int, Mapping[str, float]], None]
"""`log(step, values)`: adds one point to each of the stage's curves."""
LabelledRow = dict[str, list[int]]
"""`input_ids` and `labels` of equal length; a label is -100 where a token is read but not learned."""


def labelled(prompt: Sequence[int], reply: Sequence[int], learned: Sequence[bool] | None = None) -> LabelledRow:
    """A prompt and a reply as tokens with labels, for supervised learning.

    Args:
        prompt: token ids.
        reply: token ids, with the stop token.
        learned: for each token of the reply whether it is learned; None: all are.
    """
    flags = learned or [True] * len(reply)
    labels = [token if flag else -100 for token, flag in zip(reply, flags, strict=True)]
    return {"input_ids": [*prompt, *reply], "labels": [-100] * len(prompt) + labels}


def longest(rows: Sequence[LabelledRow]) -> int:
    """The number of tokens of the longest row."""
    return max(len(row["input_ids"]) for row in rows)


@dataclass(frozen=True)
class ReplyCollator:
    """Makes batches of rows with labels: padded, or merged into trees where the prompts begin alike."""

    model: Any
    """The causal language model; its hidden size decides how large trees are."""
    pad: int

    def __call__(self, rows: Sequence[LabelledRow]) -> dict[str, torch.Tensor]:
        """A batch as a model of transformers takes it."""
        tokens, labels = [row["input_ids"] for row in rows], [row["labels"] for row in rows]
        # The token before the first label is not shared, so that every label is predicted by the token to its left.
        prompts = [next(place for place, label in enumerate(row) if label != -100) for row in labels]
        size = self.model.config.hidden_size
        trees = trees_of(tokens, size, [length - 1 for length in prompts])
        if not trees:
            return self._padded(tokens, labels)
        merged, sees, positions = as_tensors(trees, step_of(size))
        merged_labels = torch.full_like(merged, -100)
        for line, tree in enumerate(trees):
            for row, path in tree.paths.items():
                places = path[prompts[row] :]
                merged_labels[line, places] = torch.tensor(labels[row][prompts[row] :])
        mask = attention_mask(sees, self.model)
        return {"input_ids": merged, "labels": merged_labels, "position_ids": positions, "attention_mask": mask}

    def _padded(self, tokens: Sequence[list[int]], labels: Sequence[list[int]]) -> dict[str, torch.Tensor]:
        # Padded on the right, a causal model needs no mask.
        width = max(map(len, tokens))
        return {
            "input_ids": torch.tensor([[*row, *[self.pad] * (width - len(row))] for row in tokens]),
            "labels": torch.tensor([[*row, *[-100] * (width - len(row))] for row in labels]),
        }


class CurveCallback(TrainerCallback):
    """Passes the metrics of a Hugging Face trainer to the stage's log."""

    def __init__(self, log: Log, names: Mapping[str, str]) -> None:
        """Make the callback.

        Args:
            log: adds points to the stage's curves.
            names: entries of the trainer's log, with the names of their curves.
        """
        self._log = log
        self._names = names

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add one point to the curves."""
        values = {name: float(logs[key]) for key, name in self._names.items() if logs and key in logs}
        if values:
            self._log(state.global_step, values)
