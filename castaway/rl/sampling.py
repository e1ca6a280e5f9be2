"""Drawing replies from the policy, many prompts at once, with the keys and values of the past kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import DynamicCache

from castaway.models.batches import by_tokens
from castaway.models.folded import folded
from castaway.models.tokens import pad_left, positions
from castaway.rl.actor_critic import ActorCritic

WORTHWHILE = 64
"""From so many tokens on, what all prompts begin with is read once for all of them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One drawn reply."""

    tokens: list[int]
    """The reply's tokens, with the stop token if it came."""
    logprobs: list[float]
    """At the sampling temperature."""
    values: list[float]
    """Value before each token."""
    stopped: bool
    """Whether the stop token came before the limit."""


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """How replies are drawn."""

    temperature: float
    max_new_tokens: int
    stop: int
    pad: int
    tokens_per_pass: int = 65_536
    """Padded tokens of prompts and replies that are run side by side."""


def sample_replies(
    actor: ActorCritic, prompts: Sequence[list[int]], rules: SamplingRules, generator: torch.Generator
) -> list[Sample]:
    """One reply for each prompt of token ids, in their order. Batches are made of prompts of like length."""
    samples: dict[int, Sample] = {}
    lengths = [len(prompt) + rules.max_new_tokens for prompt in prompts]
    with torch.inference_mode(), folded(actor.policy):
        for indices in by_tokens(lengths, rules.tokens_per_pass):
            drawn = _sample_batch(actor, [prompts[index] for index in indices], rules, generator)
            samples.update(zip(indices, drawn, strict=True))
    return [samples[index] for index in range(len(prompts))]


def shared_prefix(rows: Sequence[list[int]]) -> int:
    """How many tokens all rows begin with; each keeps at least one of its own."""
    first, last = min(rows), max(rows)
    same = next((number for number, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), None)
    shortest = min(len(row) for row in rows)
    return min(shortest - 1, shortest if same is None else same)


def _sample_batch(
    actor: ActorCritic, prompts: list[list[int]], rules: SamplingRules, generator: torch.Generator
) -> list[Sample]:
    device = generator.device
    shared = shared_prefix(prompts) if len(prompts) > 1 else 0
    if shared < WORTHWHILE:
        shared = 0
    tokens, mask = (tensor.to(device) for tensor in pad_left([prompt[shared:] for prompt in prompts], rules.pad))
    place = shared + positions(mask)
    cache = DynamicCache()
    if shared:
        beginning = torch.tensor([prompts[0][:shared]], device=device)
        actor.last_hidden_state(input_ids=beginning, past_key_values=cache, use_cache=True)
        cache.batch_repeat_interleave(len(prompts))
        mask = torch.cat([mask.new_ones((len(prompts), shared)), mask], dim=1)
    running = torch.ones(len(prompts), dtype=torch.bool, device=device)
    columns: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]] = []
    for _ in range(rules.max_new_tokens):
        hidden = actor.last_hidden_state(
            input_ids=tokens, attention_mask=mask, position_ids=place, past_key_values=cache, use_cache=True
        )
        log_all = torch.log_softmax(actor.logits(hidden) / rules.temperature, dim=-1)
        drawn = torch.multinomial(log_all.exp(), 1, generator=generator)
        columns.append((drawn[:, 0], log_all.gather(-1, drawn)[:, 0], actor.values(hidden), running))
        running = running & (drawn[:, 0] != rules.stop)
        if not bool(running.any()):
            break
        tokens = drawn
        place = place[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones((len(prompts), 1))], dim=1)
    drawn_all, logprobs, values, was_running = (torch.stack(column, dim=1) for column in zip(*columns, strict=True))
    lengths = was_running.sum(1).tolist()
    rows = zip(drawn_all.tolist(), logprobs.tolist(), values.tolist(), lengths, running.tolist(), strict=True)
    return [Sample(t[:n], p[:n], v[:n], not unfinished) for t, p, v, n, unfinished in rows]
