"""Shared by all supervised stages: seeds, settings of Hugging Face trainers, and a callback for curves."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


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
    scratch: Path, *, seed: int, device: str, epochs: float, batch_size: int, learning_rate: float
) -> dict[str, Any]:
    """Arguments for any Hugging Face trainer, which then neither saves checkpoints nor reports by itself.

    Args:
        scratch: folder for the trainer's temporary files.
        seed: of the order of the data and of everything random in training.
        device: `cpu`, or another kind for bfloat16 and gradient checkpointing on a GPU.
        epochs: passes over the data.
        batch_size: rows per step.
        learning_rate: at the peak, after 10 steps of warm-up; then it falls as a cosine.
    """
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
    """Passes the metrics of a Hugging Face trainer to the stage's log."""

    def __init__(self, log: Callable[[int, Mapping[str, float]], None], names: Mapping[str, str]) -> None:
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
