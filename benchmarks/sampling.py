"""Turns a second of our sampler with the tiny model, against `generate` of transformers at the same prompts.

The model is untrained, and everybody draws the same number of tokens a turn, so that only the sampling differs.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import torch

from castaway.envs.base import Prompt
from castaway.envs.registry import make_environment, task_module
from castaway.models.tiny import new_model, train_tokenizer
from castaway.models.tokens import pad_left, prompt_tokens
from castaway.params import Params
from castaway.report import table
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.sampling import SamplingRules, sample_replies

NO_STOP = -1
"""A stop token that never comes."""


def sampling_table(params: Params, prompts: int, rounds: int) -> str:
    texts = scripted_prompts(params, prompts)
    tokenizer = train_tokenizer((m["content"] for p in texts for m in p.messages), params.base.vocabulary)
    torch.manual_seed(params.seed)
    model: Any = new_model(params.base, tokenizer).eval()
    rows = [prompt_tokens(tokenizer, prompt.messages) for prompt in texts]
    pad, length = int(tokenizer.pad_token_id), params.ppo.max_new_tokens
    rules = SamplingRules(temperature=1.0, max_new_tokens=length, stop=NO_STOP, pad=pad)
    actor, generator = ActorCritic(model), torch.Generator().manual_seed(params.seed)
    drawing = {"do_sample": True, "top_k": 0, "max_new_tokens": length, "pad_token_id": pad}
    model.generation_config.eos_token_id = None

    def generate(batch: list[list[int]]) -> None:
        tokens, mask = pad_left(batch, pad)
        model.generate(input_ids=tokens, attention_mask=mask, **drawing)

    def one_by_one() -> None:
        for row in rows:
            generate([row])

    ways: dict[str, Callable[[], object]] = {
        "`generate`, turn by turn": one_by_one,
        "`generate`, one batch": lambda: generate(rows),
        "ours, with values and log-probabilities": lambda: sample_replies(actor, rows, rules, generator),
    }
    generate(rows[:2])  # the first call of each is slower
    sample_replies(actor, rows[:2], rules, generator)
    speeds = {name: prompts / seconds for name, seconds in timed(ways, rounds).items()}
    slowest = next(iter(speeds.values()))
    lines = [[name, f"{speed:,.0f}", f"{speed / slowest:.1f}"] for name, speed in speeds.items()]
    mean = sum(map(len, rows)) / len(rows)
    head = f"{prompts} prompts of {mean:.0f} tokens in the mean, {length} new tokens each; median of {rounds}."
    return f"{head}\n\n{table(['sampler', 'turns/s', 'times the first'], lines)}"


def scripted_prompts(params: Params, count: int) -> list[Prompt]:
    """The first prompts of scripted games of the first task."""
    task = params.tasks[0]
    environment, expert = make_environment(params, task), task_module(task).expert
    found: list[Prompt] = []
    game = 0
    while len(found) < count:
        environment.reset(game, "all")
        while not environment.done and len(found) < count:
            asked = environment.prompts()
            found += asked
            environment.step({prompt.agent: expert(prompt).action for prompt in asked})
        game += 1
    return found[:count]


def timed(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each, measured in turns, so that a busy moment meets all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            began = perf_counter()
            way()
            seconds[name].append(perf_counter() - began)
    return {name: median(values) for name, values in seconds.items()}
