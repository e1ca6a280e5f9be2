"""What all supervised stages share: quiet, seeded, reproducible trainer settings, and their curves."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


def seed_everything(seed: int, threads: int) -> None:
    """Fix all random states and the number of torch threads: together they fix the bytes of a result."""
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Or each new tensor is filled with NaN first: for the wide one that TRL's loss makes twice a step, of which a small
    # vocabulary fills a sliver, that takes longer than the rest of the step.
    torch.utils.deterministic.fill_uninitialized_memory = False


def trainer_settings(
    scratch: Path, *, seed: int, device: str, epochs: float, batch_size: int, learning_rate: float
) -> dict[str, Any]:
    """Arguments for any Hugging Face trainer: nothing is saved or reported by it, and nothing is compressed."""
    on_gpu = device != "cpu"
    return {
        "output_dir": str(scratch / "trainer"),
        "seed": seed,
        "data_seed": seed,
        "use_cpu": not on_gpu,
        "bf16": on_gpu,
        "gradient_checkpointing": on_gpu,
        "num_train_epochs": epochs,
        "per_device_train_batch_size": batch_size,
        "per_device_eval_batch_size": 4 * batch_size,
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


class CurveCallback(TrainerCallback):
    """Hands a trainer's numbers to the stage's log."""

    def __init__(self, log: Callable[[int, Mapping[str, float]], None], names: Mapping[str, str]) -> None:
        """Report these entries of the trainer's log under these names."""
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
        """One point of the curves."""
        values = {name: float(logs[key]) for key, name in self._names.items() if logs and key in logs}
        if values:
            self._log(state.global_step, values)
