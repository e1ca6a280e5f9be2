"""Measures sampling and training of a real model, beside transformers' `generate`, vLLM and TRL's SFTTrainer.

    python -m benchmarks.real_model data/smollm2/base --threads 2

The prompts are random tokens that begin alike, as those of a game do, and every reply has the same length. Each way
runs in a process of its own, so that its peak memory is its own; the ways alternate.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import psutil
import torch

from benchmarks.timing import clocked, winner
from castaway.config.bases import Dtype
from castaway.config.sections import LoraParams
from castaway.metrics.markdown import table
from castaway.models.policy import load_model, lora_config, new_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import ReplyCollator, labelled, trainer_settings
from castaway.processes.environment import FROM_THE_START
from castaway.rollout.actor_critic import ActorCritic
from castaway.rollout.sampling import SamplingRules, sample_replies
from castaway.rollout.served_policy import MODEL, ServedPolicy
from castaway.rollout.server import running
from castaway.rollout.vllm import Serving

SHARED, OWN, REPLY = 50, 29, 32
"""Tokens that all prompts begin with, those that follow, and those of a reply."""
LORA = LoraParams(rank=16, alpha=16)
RULES = SamplingRules(1.0, REPLY, frozenset(), 0)
"""Nothing ends a reply but its length."""
ROOT = Path(__file__).parents[1]
VLLM = ROOT / ".venv-vllm"
Figures = dict[str, float]
"""`speed`, in tokens per second, and `peak`, of memory in GB."""
Way = Callable[[Path, int, Dtype], Figures]
"""Measures with a model folder, a number of prompts, and the precision of the weights."""


def prompts(folder: Path, count: int, seed: int = 0) -> list[list[int]]:
    most = min(40_000, json.loads((folder / "config.json").read_text("utf-8"))["vocab_size"])
    random = Random(seed)
    drawn = [[random.randrange(most // 40, most) for _ in range(size)] for size in [SHARED, *[OWN] * count]]
    return [drawn[0] + own for own in drawn[1:]]


def figures(step: Callable[[], object], tokens: int) -> Figures:
    """Of a step that makes or learns so many tokens: the median of three."""
    seconds = median(clocked(step).wall for _ in range(3))
    return {"speed": tokens / seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def generate(folder: Path, count: int, dtype: Dtype) -> Figures:
    model: Any = load_model(folder, dtype=dtype)
    model.generation_config.eos_token_id = None
    settings = {"do_sample": True, "top_k": 0, "max_new_tokens": REPLY, "pad_token_id": 0}
    tokens = torch.tensor(prompts(folder, count))
    mask = torch.ones_like(tokens)

    def step() -> None:
        model.generate(input_ids=tokens, attention_mask=mask, **settings)

    step()
    return figures(step, count * REPLY)


def vllm(folder: Path, count: int, dtype: Dtype) -> Figures:
    """The server is asked for other prompts before, since it keeps those that it has read."""
    with tempfile.TemporaryDirectory(prefix="castaway-bench-") as scratch:
        serving = Serving(
            str(folder), MODEL, port=0, context=SHARED + OWN + REPLY, environment=VLLM, log=Path(scratch) / "log"
        )
        with running(serving) as server:
            policy = ServedPolicy(server.url, ChatTokenizer.load(folder), RULES)
            policy.draw(prompts(folder, count, seed=1))
            seeds = iter(range(2, 5))
            found = figures(lambda: policy.draw(prompts(folder, count, seed=next(seeds))), count * REPLY)
            first = psutil.Process(server.process.pid)
            return {**found, "peak": sum(_peak(one.pid) for one in (first, *first.children(recursive=True)))}


def _peak(process: int) -> float:
    """The peak memory of a process, in GB."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{process}/status").read_text("ascii"))
    return int(found[1]) / 1e6 if found else 0.0


def our_sampling(folder: Path, count: int, dtype: Dtype) -> Figures:
    actor = ActorCritic(new_adapter(load_model(folder, dtype=dtype), LORA))
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        sample_replies(actor, prompts(folder, count), RULES, generator)

    step()
    return figures(step, count * REPLY)


def our_update(folder: Path, count: int, dtype: Dtype) -> Figures:
    actor = ActorCritic(new_adapter(load_model(folder, dtype=dtype), LORA))
    pairs = [(prompt, prompt[-REPLY:]) for prompt in prompts(folder, count)]

    def step() -> None:
        scores = actor.score(actor.batch(pairs), 1.0)
        (scores.logprobs.sum() + scores.values.sum()).backward()

    step()
    return figures(step, count * (SHARED + OWN + REPLY))


def our_sft(folder: Path, count: int, dtype: Dtype) -> Figures:
    from castaway.models.trainers import FoldedSFTTrainer

    return _sft(folder, count, dtype, FoldedSFTTrainer, ours=True)


def trl_sft(folder: Path, count: int, dtype: Dtype) -> Figures:
    from trl import SFTTrainer

    return _sft(folder, count, dtype, SFTTrainer, ours=False)


def _sft(folder: Path, count: int, dtype: Dtype, trainer_class: Any, ours: bool) -> Figures:
    from datasets import Dataset
    from trl import SFTConfig

    tokenizer, model = ChatTokenizer.load(folder), load_model(folder, dtype=dtype)
    rows = [labelled(prompt, prompt[-REPLY:]) for prompt in prompts(folder, count)]
    with tempfile.TemporaryDirectory(prefix="castaway-bench-") as scratch:
        settings = trainer_settings(
            Path(scratch), seed=0, device="cpu", epochs=1, batch_size=count, learning_rate=1e-4, examples=count
        )
        trainer = trainer_class(
            model=model,
            args=SFTConfig(**{**settings, "disable_tqdm": True}, max_length=None, packing=False),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer.tokenizer,
            peft_config=lora_config(LORA),
            **({"data_collator": ReplyCollator(model, tokenizer.pad)} if ours else {}),
        )
        trainer.train()
        return figures(trainer.train, count * (SHARED + OWN + REPLY))


OF_PPO = "training: ours, forward and backward of PPO"
WAYS: dict[str, tuple[Way, str]] = {
    "sampling: `generate`, one batch": (generate, "reply tokens/s"),
    "sampling: vLLM's server for CPUs": (vllm, "reply tokens/s"),
    "sampling: ours, with values and log-probabilities": (our_sampling, "reply tokens/s"),
    "training: TRL's SFTTrainer": (trl_sft, "tokens/s"),
    "training: ours, SFT": (our_sft, "tokens/s"),
    OF_PPO: (our_update, "tokens/s"),
}
"""The ways with the units of their speeds; the others are compared with the first of their unit."""


def measured(name: str, folder: Path, count: int, threads: int, dtype: str) -> Figures:
    """The figures of one way, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.real_model", str(folder.absolute()), "--threads", str(threads)]
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    done = subprocess.run(
        [*command, "--count", str(count), "--dtype", dtype, "--way", name],
        cwd=ROOT,
        env={**os.environ, **FROM_THE_START, "VLLM_CPU_OMP_THREADS_BIND": cores},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} could not be measured:\n{done.stderr[-3000:]}")
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def real_model_table(folder: Path, threads: int, count: int, rounds: int, dtype: str = "float32") -> str:
    """A Markdown table of all ways; medians of `rounds` rounds, in which the ways take turns."""
    ways = {name: unit for name, (way, unit) in WAYS.items() if way is not vllm or VLLM.is_dir()}
    found: dict[str, list[Figures]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name in ways:
            found[name].append(measured(name, folder, count, threads, dtype))
    first: dict[str, float] = {}
    rows = []
    for name, unit in ways.items():
        speed, peak = median(one["speed"] for one in found[name]), max(one["peak"] for one in found[name])
        first.setdefault(unit, speed)
        rows.append([name, unit, f"{speed:,.0f}", f"{speed / first[unit]:.2f}", f"{peak:.1f}"])
    head = (
        f"{count} prompts of {SHARED + OWN} tokens, {SHARED} of them shared, {REPLY} new tokens, {dtype}, {threads} "
        f"thread(s); medians of {rounds}, in turns."
    )
    without = "" if VLLM.is_dir() else " Without vLLM, which `make setup-vllm` installs."
    shown = table(["way", "unit", "speed", "times the first", "peak GB"], rows)
    speeds = {
        unit: {name: median(one["speed"] for one in rows) for name, rows in found.items() if ways[name] == unit}
        for unit in first
    }
    speeds["tokens/s"].pop(OF_PPO)  # no other library's trainer does the same
    return "\n\n".join([f"{head}{without}", shown, *map(winner, speeds.values())])


def main() -> None:
    top = argparse.ArgumentParser("python -m benchmarks.real_model", description="Speed of a real model on a CPU.")
    top.add_argument("folder", type=Path, help="of the model, such as data/smollm2/base")
    top.add_argument("--threads", type=int, default=2)
    top.add_argument("--count", type=int, default=32, help="prompts in a batch")
    top.add_argument("--rounds", type=int, default=3)
    top.add_argument(
        "--dtype", choices=["float32", "bfloat16"], default="float32", help="of the weights; vLLM: its own"
    )
    top.add_argument("--way", choices=WAYS, help="measure only this, and print one line of JSON")
    asked = top.parse_args()
    if asked.way:
        torch.set_num_threads(asked.threads)
        print(json.dumps(WAYS[asked.way][0](asked.folder, asked.count, asked.dtype)))
    else:
        print(real_model_table(asked.folder, asked.threads, asked.count, asked.rounds, asked.dtype))


if __name__ == "__main__":
    main()
