"""Shared by stages that train: seeds and memory of the process, settings of Hugging Face trainers, rows, curves."""

import ctypes
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import TrainerCallback

from castaway.config.sections import CorrectionSftParams, RewardModelParams, SftParams
from castaway.models.rows import SMALL, as_tensors, attention_mask, step_of, trees_of, visible, window_of

LARGE_BLOCK = 2**22  # in bytes; with a mebibyte, a third more time is lost
MMAP_THRESHOLD = -3  # `M_MMAP_THRESHOLD` of mallopt(3)


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


def return_large_blocks(hidden_size: int) -> None:
    """From now on, malloc returns each large block to the kernel when it is freed, unless the model is small.

    A stage tells malloc to keep what is freed (`castaway/processes/environment.py`). Batches of many shapes then leave
    gaps that nothing fits into, and PPO or an evaluation would grow from step to step.
    """
    library = ctypes.CDLL(None)
    if hidden_size >= SMALL and hasattr(library, "mallopt"):
        library.mallopt(MMAP_THRESHOLD, LARGE_BLOCK)


def trainer_settings(
    scratch: Path,
    *,
    seed: int,
    device: str,
    epochs: float,
    batch_size: int,
    learning_rate: float,
    examples: int,
    rows_per_pass: int | None = None,
    gradient_checkpointing: bool = False,
) -> dict[str, Any]:
    """Arguments for any Hugging Face trainer, which then neither saves checkpoints nor reports by itself.

    The learning rate is the peak, after a warm-up of 10 steps, or of a tenth of fewer than 100; then it falls as a
    cosine. `examples` are those of an epoch. `rows_per_pass` is a divisor of the batch size; None: all rows of a step
    are one forward and backward pass.
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
        # The first step of a warm-up has a rate of 0: a stage of a few steps would learn little or nothing.
        "warmup_steps": min(10, ceil(epochs * examples / batch_size) // 10),
        "weight_decay": 0.0,
        "logging_steps": 10,
        "save_strategy": "no",
        "report_to": [],
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": on_gpu,
    }


def section_settings(
    params: SftParams | RewardModelParams | CorrectionSftParams,
    examples: int,
    longest: int,
    scratch: Path,
    **settings: Any,
) -> dict[str, Any]:
    """`trainer_settings` of a section of `params.yaml`, for so many rows, of at most `longest` tokens."""
    return trainer_settings(
        scratch,
        epochs=params.epochs,
        batch_size=params.batch_size,
        learning_rate=params.learning_rate,
        examples=examples,
        rows_per_pass=rows_per_pass(params.batch_size, longest, params.tokens_per_pass),
        **settings,
    )


def rows_per_pass(batch_size: int, longest: int, tokens_per_pass: int) -> int:
    """The largest divisor of the batch size whose rows, padded to the longest, fit into a pass; at least 1."""
    divisors = [rows for rows in range(1, batch_size + 1) if batch_size % rows == 0]
    return max(rows for rows in divisors if rows == 1 or rows * longest <= tokens_per_pass)


Log = Callable[[int, Mapping[str, float]], None]  # `log(step, values)`: adds one point to each of the stage's curves
LabelledRow = dict[str, list[int]]  # `input_ids` and `labels`, -100 where a token is not learned


def labelled(prompt: Sequence[int], reply: Sequence[int], learned: Sequence[bool] | None = None) -> LabelledRow:
    """A prompt and a reply as tokens with labels; `learned` says which of the reply's are learned, by default all."""
    labels = [token if flag else -100 for token, flag in zip(reply, learned or [True] * len(reply), strict=True)]
    return {"input_ids": [*prompt, *reply], "labels": [-100] * len(prompt) + labels}


def longest(rows: Sequence[LabelledRow]) -> int:
    return max(len(row["input_ids"]) for row in rows)


@dataclass(frozen=True)
class ReplyCollator:
    model: Any  # the causal language model; its hidden size decides how large trees are
    pad: int

    def __call__(self, rows: Sequence[LabelledRow]) -> dict[str, torch.Tensor]:
        tokens, labels = [row["input_ids"] for row in rows], [row["labels"] for row in rows]
        # The token before the first label is not shared, so that every label is predicted by the token to its left.
        prompts = [next(place for place, label in enumerate(row) if label != -100) for row in labels]
        size = self.model.config.get_text_config().hidden_size
        trees = trees_of(tokens, size, [length - 1 for length in prompts], window_of(self.model))
        if not trees:  # padded on the right, a causal model needs no mask
            return {
                "input_ids": pad_sequence(list(map(torch.tensor, tokens)), batch_first=True, padding_value=self.pad),
                "labels": pad_sequence(list(map(torch.tensor, labels)), batch_first=True, padding_value=-100),
                **self._lengths(tokens),
            }
        merged, ends, positions = as_tensors(trees, step_of(size))
        merged_labels = torch.full_like(merged, -100)
        for line, tree in enumerate(trees):
            for row, path in tree.paths.items():
                merged_labels[line, path[prompts[row] :]] = torch.tensor(labels[row][prompts[row] :])
        mask = attention_mask(visible(ends), self.model)
        batch = {"input_ids": merged, "labels": merged_labels, "position_ids": positions, "attention_mask": mask}
        return {**batch, **self._lengths([tree.tokens for tree in trees])}

    def _lengths(self, lines: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
        """For mixtures of experts with a loss of balance, which TRL's trainer asks for in the model's configuration."""
        asked = getattr(self.model.config.get_text_config(), "output_router_logits", False)
        return {"lengths": torch.tensor([len(line) for line in lines])} if asked else {}


class CurveCallback(TrainerCallback):
    def __init__(self, log: Log, names: Mapping[str, str]) -> None:
        self._log, self._names = log, names

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        if values := {name: float(logs[key]) for key, name in self._names.items() if logs and key in logs}:
            self._log(state.global_step, values)
