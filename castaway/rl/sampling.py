"""Drawing replies from the policy, many prompts at once, with the keys and values of the past kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import DynamicCache, PreTrainedTokenizerBase

from castaway.models.batches import by_tokens
from castaway.models.folded import folded
from castaway.models.tokens import pad_left, positions
from castaway.rl.actor_critic import ActorCritic

WORTHWHILE = 64
"""Tokens from which on a common beginning of all prompts is read once for all of them."""


@dataclass(frozen=True, slots=True)
class SampledReply:
    """One drawn reply."""

    tokens: list[int]
    """The reply's tokens, with the stop token if it came."""
    logprobs: list[float]
    """(tokens) log-probability in nats of each token at the sampling temperature."""
    values: list[float]
    """(tokens) value before each token."""
    stopped: bool
    """Whether the stop token came before the limit."""


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """How replies are drawn."""

    temperature: float
    """Logits are divided by it."""
    max_new_tokens: int
    """Tokens of a reply, at most."""
    stop: int
    """The token that ends a reply."""
    pad: int
    """The token that prompts are padded with, on the left."""
    tokens_per_pass: int = 65_536
    """Padded tokens of prompts and replies that are run side by side, at most."""

    @classmethod
    def of(
        cls, tokenizer: PreTrainedTokenizerBase, *, temperature: float, max_new_tokens: int, tokens_per_pass: int
    ) -> SamplingRules:
        """The rules for a tokenizer, whose end token stops a reply.

        Raises:
            ValueError: the tokenizer has no end token, or none for padding.
        """
        stop, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
        if not isinstance(stop, int) or not isinstance(pad, int):
            raise ValueError(f"the tokenizer needs one end token and one for padding, and has {stop!r} and {pad!r}")
        return cls(temperature, max_new_tokens, stop, pad, tokens_per_pass)


def sample_replies(
    actor: ActorCritic, prompts: Sequence[list[int]], rules: SamplingRules, generator: torch.Generator
) -> list[SampledReply]:
    """Draw one reply for each prompt.

    Args:
        actor: draws the tokens, and gives their values.
        prompts: token ids; batches are made of prompts of like length.
        rules: how replies are drawn.
        generator: decides all draws; the same state gives the same replies.

    Returns:
        The replies in the order of the prompts.
    """
    replies: dict[int, SampledReply] = {}
    lengths = [len(prompt) + rules.max_new_tokens for prompt in prompts]
    with torch.inference_mode(), folded(actor.policy):
        for indices in by_tokens(lengths, rules.tokens_per_pass):
            drawn = _sample_batch(actor, [prompts[index] for index in indices], rules, generator)
            replies.update(zip(indices, drawn, strict=True))
    return [replies[index] for index in range(len(prompts))]


def shared_prefix(rows: Sequence[list[int]]) -> int:
    """How many tokens all rows begin with; at least the last token of each row is left out."""
    # In the order of lists, what the smallest and the largest row share is shared by all rows between them.
    first, last = min(rows), max(rows)
    same = next((number for number, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), None)
    shortest = min(len(row) for row in rows)
    return min(shortest - 1, shortest if same is None else same)


def _sample_batch(
    actor: ActorCritic, prompts: list[list[int]], rules: SamplingRules, generator: torch.Generator
) -> list[SampledReply]:
    device = generator.device
    shared = shared_prefix(prompts) if len(prompts) > 1 else 0
    if shared < WORTHWHILE:
        shared = 0
    tokens, mask = (tensor.to(device) for tensor in pad_left([prompt[shared:] for prompt in prompts], rules.pad))
    place = shared + positions(mask)
    cache = DynamicCache()
    if shared:
        # The common beginning (the rules of the game) is read once, and its keys and values are copied to all rows.
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
        # Replies that have ended are drawn on with the others: their further tokens are cut off below.
        running = running & (drawn[:, 0] != rules.stop)
        if not bool(running.any()):
            break
        tokens = drawn
        place = place[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones((len(prompts), 1))], dim=1)
    drawn_all, logprobs, values, was_running = (torch.stack(column, dim=1) for column in zip(*columns, strict=True))
    lengths = was_running.sum(1).tolist()
    rows = zip(drawn_all.tolist(), logprobs.tolist(), values.tolist(), lengths, running.tolist(), strict=True)
    return [
        SampledReply(
            tokens=row_tokens[:length],
            logprobs=row_logprobs[:length],
            values=row_values[:length],
            stopped=not unfinished,
        )
        for row_tokens, row_logprobs, row_values, length, unfinished in rows
    ]
