"""Measures sampling and training of a real model, beside transformers' `generate` and TRL's SFTTrainer.

    python -m benchmarks.real_model data/smollm2/base --threads 2

The prompts are random tokens that begin alike, as those of a game do, and every reply has the same length. Each way
runs in a process of its own, so that its peak memory is its own; the ways alternate.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import torch

from benchmarks.timing import clocked
from castaway.config.sections import LoraParams
from castaway.metrics.markdown import table
from castaway.models.policy import load_model, lora_config, new_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import ReplyCollator, labelled, trainer_settings
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.sampling import SamplingRules, sample_replies

SHARED, OWN, REPLY = 50, 29, 32
"""Tokens that all prompts begin with, those that follow, and those of a reply."""
LORA = LoraParams(rank=16, alpha=16)
Way = Callable[[Path, int], tuple[Callable[[], object], int]]
"""Makes a function to time from a model folder and a number of prompts; and how many tokens it makes or learns."""


def prompts(count: int) -> list[list[int]]:
    random = Random(0)
    shared = [random.randrange(1000, 40000) for _ in range(SHARED)]
    return [shared + [random.randrange(1000, 40000) for _ in range(OWN)] for _ in range(count)]


def our_sampling(folder: Path, count: int) -> tuple[Callable[[], object], int]:
    actor = ActorCritic(new_adapter(load_model(folder), LORA))
    rules = SamplingRules(1.0, REPLY, frozenset(), 0)
    generator = torch.Generator().manual_seed(0)
    return lambda: sample_replies(actor, prompts(count), rules, generator), count * REPLY


def generate(folder: Path, count: int) -> tuple[Callable[[], object], int]:
    model: Any = load_model(folder)
    model.generation_config.eos_token_id = None
    tokens = torch.tensor(prompts(count))
    settings = {"do_sample": True, "top_k": 0, "max_new_tokens": REPLY, "pad_token_id": 0}
    mask = torch.ones_like(tokens)
    return lambda: model.generate(input_ids=tokens, attention_mask=mask, **settings), count * REPLY


def our_update(folder: Path, count: int) -> tuple[Callable[[], object], int]:
    actor = ActorCritic(new_adapter(load_model(folder), LORA))
    pairs = [(prompt, prompt[-REPLY:]) for prompt in prompts(count)]

    def step() -> None:
        scores = actor.score(actor.batch(pairs), 1.0)
        (scores.logprobs.sum() + scores.values.sum()).backward()

    return step, count * (SHARED + OWN + REPLY)


def our_sft(folder: Path, count: int) -> tuple[Callable[[], object], int]:
    from castaway.models.trainers import FoldedSFTTrainer

    return _sft(folder, count, FoldedSFTTrainer, ours=True)


def trl_sft(folder: Path, count: int) -> tuple[Callable[[], object], int]:
    from trl import SFTTrainer

    return _sft(folder, count, SFTTrainer, ours=False)


def _sft(folder: Path, count: int, trainer_class: Any, ours: bool) -> tuple[Callable[[], object], int]:
    from datasets import Dataset
    from trl import SFTConfig

    tokenizer, model = ChatTokenizer.load(folder), load_model(folder)
    rows = [labelled(prompt, prompt[-REPLY:]) for prompt in prompts(count)]
    scratch = Path(tempfile.mkdtemp(prefix="castaway-bench-"))
    settings = trainer_settings(scratch, seed=0, device="cpu", epochs=1, batch_size=count, learning_rate=1e-4)
    trainer = trainer_class(
        model=model,
        args=SFTConfig(**{**settings, "disable_tqdm": True}, max_length=None, packing=False),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer.tokenizer,
        peft_config=lora_config(LORA),
        **({"data_collator": ReplyCollator(model, tokenizer.pad)} if ours else {}),
    )
    return trainer.train, count * (SHARED + OWN + REPLY)


WAYS: dict[str, tuple[Way, str]] = {
    "sampling: `generate`, one batch": (generate, "reply tokens/s"),
    "sampling: ours, with values and log-probabilities": (our_sampling, "reply tokens/s"),
    "training: TRL's SFTTrainer": (trl_sft, "tokens/s"),
    "training: ours, SFT": (our_sft, "tokens/s"),
    "training: ours, forward and backward of PPO": (our_update, "tokens/s"),
}


def measured(name: str, folder: Path, count: int, threads: int) -> dict[str, float]:
    """Tokens per second and peak memory in GB of one way, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.real_model", str(folder), "--threads", str(threads)]
    done = subprocess.run([*command, "--count", str(count), "--way", name], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    top = argparse.ArgumentParser("python -m benchmarks.real_model", description="Speed of a real model on a CPU.")
    top.add_argument("folder", type=Path, help="of the model, such as data/smollm2/base")
    top.add_argument("--threads", type=int, default=2)
    top.add_argument("--count", type=int, default=32, help="prompts in a batch")
    top.add_argument("--rounds", type=int, default=3)
    top.add_argument("--way", choices=WAYS, help="measure only this, and print one line of JSON")
    asked = top.parse_args()
    if asked.way:
        torch.set_num_threads(asked.threads)
        way, tokens = WAYS[asked.way][0](asked.folder, asked.count)
        way()
        seconds = clocked(way).wall
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(json.dumps({"speed": tokens / seconds, "peak": peak}))
        return
    found: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    for _ in range(asked.rounds):
        for name in WAYS:
            found[name].append(measured(name, asked.folder, asked.count, asked.threads))
    rows = [
        [name, WAYS[name][1], f"{median(one['speed'] for one in all_):,.0f}", f"{max(one['peak'] for one in all_):.1f}"]
        for name, all_ in found.items()
    ]
    head = (
        f"{asked.count} prompts of {SHARED + OWN} tokens, {SHARED} of them shared, {REPLY} new tokens, float32, "
        f"{asked.threads} threads; medians of {asked.rounds}."
    )
    print(f"{head}\n\n{table(['way', 'unit', 'speed', 'peak GB'], rows)}")


if __name__ == "__main__":
    main()
