"""The PPO of TRL 1.12.0, the last release that had one: seconds of each batch, as JSON.

Run by `benchmarks.ppo_step` in a process of its own, whose path begins with a folder that holds that release.
"""

from __future__ import annotations

import json
import sys
import tempfile
from time import perf_counter, process_time
from typing import Any

import torch
import trl
from datasets import Dataset
from transformers import PreTrainedTokenizerFast, TrainerCallback
from trl.experimental.ppo import PPOConfig, PPOTrainer

from benchmarks.shapes import PAD, Shape
from castaway.models.tiny import train_tokenizer


class Clock(TrainerCallback):
    """Reads the clocks at the end of every batch."""

    def __init__(self) -> None:
        self.read: list[tuple[float, float]] = [(perf_counter(), process_time())]

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.read.append((perf_counter(), process_time()))


def main(shape: Shape, batches: int) -> None:
    assert trl.__version__ == "1.12.0", trl.__version__
    torch.set_num_threads(shape.threads)
    tokenizer: PreTrainedTokenizerFast = train_tokenizer(["nothing"], 300)
    tokenizer.pad_token_id = PAD
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        settings = PPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=shape.turns,
            gradient_accumulation_steps=1,
            num_mini_batches=1,
            num_ppo_epochs=shape.epochs,
            local_rollout_forward_batch_size=shape.turns,
            response_length=shape.reply,
            stop_token=None,
            temperature=1.0,
            total_episodes=shape.turns * batches,
            num_sample_generations=0,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            logging_steps=1000,
            seed=0,
        )
        trainer = PPOTrainer(
            args=settings,
            processing_class=tokenizer,
            model=shape.policy(),
            ref_model=None,
            reward_model=shape.scalar_model(1),
            value_model=shape.scalar_model(2),
            train_dataset=Dataset.from_dict({"input_ids": shape.prompts(batches)}),
            peft_config=shape.lora(),
            callbacks=[clock],
        )
        clock.read = [(perf_counter(), process_time())]
        trainer.train()
    pairs = zip(clock.read, clock.read[1:], strict=False)
    rows = [(end[0] - start[0], end[1] - start[1]) for start, end in pairs]
    print(json.dumps(rows))


if __name__ == "__main__":
    main(Shape(**json.loads(sys.argv[1])), int(sys.argv[2]))
