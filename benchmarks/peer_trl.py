"""Measures the PPO of TRL 1.12.0, the last release with PPO.

For each line on standard input it trains on one batch, and prints the wall and CPU seconds as JSON. It is run by
`benchmarks.ppo_step` in its own process, with that release at the start of its import path.
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
from castaway.bases.tiny import train_tokenizer


class Clock(TrainerCallback):
    """Waits for a line before each batch, and prints the wall and CPU seconds after it."""

    def start(self) -> None:
        sys.stdin.readline()
        self._began = perf_counter(), process_time()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        print(json.dumps([perf_counter() - self._began[0], process_time() - self._began[1]]), flush=True)
        self.start()


def main(shape: Shape, batches: int) -> None:
    # Newer releases, such as the one in the main environment, have no PPO.
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
        clock.start()
        trainer.train()


if __name__ == "__main__":
    main(Shape(**json.loads(sys.argv[1])), int(sys.argv[2]))
