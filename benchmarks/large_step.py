"""Measures a whole PPO step with the layers of Llama 3.1 8B on a CPU: two of them, and a small vocabulary.

    python -m benchmarks.large_step --turns 2

The weights are random, in bfloat16, and prompts are random tokens whose first half all share. What is clocked as model
mathematics are the blocks, the LM head, their backward passes and the optimiser; the rest is what the engine adds:
rows, trees and masks, caches, drawing, advantages, play.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import torch

from benchmarks.ppo_step import trainer_of_turns
from benchmarks.shapes import random_model
from castaway.metrics.markdown import table
from castaway.models.policy import new_adapter
from castaway.processes.environment import start_afresh
from castaway.rl.learner import Learner
from castaway.rl.rollouts import Rollouts
from castaway.rollout import actor_critic
from castaway.rollout.actor_critic import ActorCritic
from castaway.tasks.registry import read_params
from castaway.tools.memory import KNOWN, Sizes
from castaway.tracking.records import peak_memory

PROFILE = Path(__file__).parents[1] / "profiles" / "llama3.1-8b.yaml"
LAYERS = 2
PHASES = {"sampling": (Rollouts, "play"), "scores": (Learner, "read"), "advantages": (Learner, "advantages")}
PHASES |= {"update": (Learner, "update")}
MATHEMATICS: list[tuple[Any, str]] = [
    (actor_critic, "hidden_states_at"),
    (ActorCritic, "logits"),
    (ActorCritic, "_token_scores"),
    (ActorCritic, "values"),
    (torch.Tensor, "backward"),
    (torch.optim.AdamW, "step"),
]


def prompts(count: int, length: int, vocabulary: int) -> list[list[int]]:
    random = Random(0)
    shared, *own = ([random.randrange(vocabulary) for _ in range(length // 2)] for _ in range(count + 1))
    return [shared + rest for rest in own]


def step_table(sizes: Sizes, turns: int, prompt: int, reply: int) -> str:
    """A Markdown table of one step, by part."""
    ppo = read_params(PROFILE).for_run("marooned").ppo
    causal = random_model(sizes)
    policy = new_adapter(causal, ppo.lora)
    causal.activation_checkpointing_enable({"use_reentrant": False})
    rows = prompts(turns, prompt, sizes.vocabulary)
    play = {"episodes_per_step": turns, "turns_per_step": None, "max_new_tokens": reply}
    trainer = trainer_of_turns(ActorCritic(policy), ppo, rows, {"steps": 1, "rollout": play})
    loaded = peak_memory()
    spent: dict[str, list[float]] = {phase: [0.0, 0.0] for phase in PHASES}
    began = process_time()
    with clocks(spent):
        trainer.step()
    whole = process_time() - began
    spent["the rest"] = [whole - sum(seconds for seconds, _ in spent.values()), 0.0]
    spent["the step"] = [whole, sum(within for _, within in spent.values())]
    shown = [
        [part, f"{seconds:.2f}", f"{within:.2f}", f"{100 * (seconds - within) / whole:.1f} %"]
        for part, (seconds, within) in spent.items()
    ]
    head = (
        f"{sizes.layers} layer(s) of width {sizes.hidden:,} and {sizes.intermediate:,} in bfloat16, a vocabulary of "
        f"{sizes.vocabulary:,}, {turns} turns of {prompt:,} + {reply} tokens, half of each prompt shared, one epoch, "
        f"{torch.get_num_threads()} thread(s). "
        f"Peak memory: {peak_memory():.1f} GiB, {loaded:.1f} of them before the step."
    )
    columns = ["part", "CPU seconds", "of model mathematics", "the engine's share of the step"]
    return f"{head}\n\n{table(columns, shown)}"


@contextmanager
def clocks(spent: dict[str, list[float]]) -> Iterator[None]:
    """Context in which each phase adds its seconds to `spent`, and those of mathematics in it."""
    phase: list[str] = []
    depth = [0]

    def timed_phase(original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            phase.append(name)
            began = process_time()
            try:
                return original(*args, **kwargs)
            finally:
                spent[phase.pop()][0] += process_time() - began

        return call

    def timed(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            depth[0] += 1
            began = process_time()
            try:
                return original(*args, **kwargs)
            finally:
                depth[0] -= 1
                if phase and not depth[0]:  # of calls within each other the outer one counts
                    spent[phase[-1]][1] += process_time() - began

        return call

    places = [(*place, lambda original, name=name: timed_phase(original, name)) for name, place in PHASES.items()]
    places += [(*place, timed) for place in MATHEMATICS]
    originals = [getattr(owner, name) for owner, name, _ in places]
    for (owner, name, wrap), original in zip(places, originals, strict=True):
        setattr(owner, name, wrap(original))
    try:
        yield
    finally:
        for (owner, name, _), original in zip(places, originals, strict=True):
            setattr(owner, name, original)


def main() -> None:
    top = argparse.ArgumentParser(
        "python -m benchmarks.large_step", description="A PPO step with Llama 3.1 8B's layers."
    )
    top.add_argument("--turns", type=int, default=2)
    top.add_argument("--prompt", type=int, default=9000, help="tokens of a prompt")
    top.add_argument("--reply", type=int, default=16, help="tokens of a reply")
    top.add_argument("--thin", action="store_true", help="one narrow layer: what the engine adds, without mathematics")
    top.add_argument("--vocabulary", type=int, default=8192, help="tokens that there are; the real model has 128,256")
    top.add_argument("--threads", type=int, default=1)
    asked = top.parse_args()
    start_afresh()
    torch.set_num_threads(asked.threads)
    sizes = replace(KNOWN["llama-3.1-8b"], layers=LAYERS, vocabulary=asked.vocabulary)
    if asked.thin:
        sizes = replace(sizes, layers=1, intermediate=64, queries=128, keys=128)
    print(step_table(sizes, asked.turns, asked.prompt, asked.reply))


if __name__ == "__main__":
    main()
