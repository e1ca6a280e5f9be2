"""Measures TRL's GRPOTrainer or RLOOTrainer.

For each line on standard input it trains on one batch, and prints the wall and CPU seconds as JSON. It is run by
`benchmarks.ppo_step` in its own process.
"""

from __future__ import annotations

import json
import sys
import tempfile
from time import perf_counter, process_time
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from benchmarks.shapes import PAD, Shape, gain
from castaway.bases.tiny import train_tokenizer


class Clock(TrainerCallback):
    """Waits for a line before each batch, and prints the wall and CPU seconds after it."""

    def start(self) -> None:
        sys.stdin.readline()
        self._began = perf_counter(), process_time()

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self.start()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        print(json.dumps([perf_counter() - self._began[0], process_time() - self._began[1]]), flush=True)
        self.start()


def rewards(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [gain(" ".join(map(str, tokens))) for tokens in completion_ids]


def main(method: str, shape: Shape, batches: int) -> None:
    torch.set_num_threads(shape.threads)
    tokenizer: PreTrainedTokenizerFast = train_tokenizer(["nothing"], 300)
    tokenizer.pad_token_id = PAD
    with tempfile.TemporaryDirectory() as folder:
        common: dict[str, Any] = {
            "output_dir": folder,
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "per_device_train_batch_size": shape.turns,
            "num_generations": shape.group,
            "max_completion_length": shape.reply,
            # Nothing ends a reply but its length.
            "generation_kwargs": {"eos_token_id": None},
            "temperature": 1.0,
            "beta": 0.03,  # the reference policy reads every reply, as ours does
            "max_steps": batches,
            "report_to": [],
            "save_strategy": "no",
            "logging_strategy": "no",
            "disable_tqdm": True,
            "seed": 0,
        }
        trainer_class, config = {"grpo": (GRPOTrainer, GRPOConfig), "rloo": (RLOOTrainer, RLOOConfig)}[method]
        trainer: Any = trainer_class(
            args=config(**common),
            processing_class=tokenizer,
            model=shape.policy(),
            reward_funcs=rewards,
            train_dataset=Dataset.from_dict({"prompt": shape.prompts(batches)}),
            peft_config=shape.lora(),
            callbacks=[Clock()],
        )
        trainer.train()


if __name__ == "__main__":
    main(sys.argv[1], Shape(**json.loads(sys.argv[2])), int(sys.argv[3]))
