"""Drawing replies from the policy, many prompts at once, with the keys and values of the past kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from castaway.config.ppo import RolloutParams
from castaway.models.folded import folded
from castaway.models.rows import by_tokens
from castaway.models.tokens import ChatTokenizer, pad_left, positions
from castaway.rollout.actor_critic import ActorCritic

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


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """How replies are drawn."""

    temperature: float
    """Logits are divided by it."""
    max_new_tokens: int
    """Tokens of a reply, at most."""
    stops: frozenset[int]
    """The tokens that end a reply."""
    pad: int
    """The token that prompts are padded with, on the left."""
    tokens_per_pass: int = 65_536
    """Padded tokens of prompts and replies that are run side by side, at most."""

    @classmethod
    def of(cls, tokenizer: ChatTokenizer, params: RolloutParams, temperature: float | None = None) -> SamplingRules:
        """The rules for a tokenizer, any of whose stop tokens ends a reply; at another temperature, if one is given."""
        temperature = params.temperature if temperature is None else temperature
        return cls(temperature, params.max_new_tokens, tokenizer.stops, tokenizer.pad, params.tokens_per_pass)


def sample_replies(
    actor: ActorCritic, prompts: Sequence[list[int]], rules: SamplingRules, generator: torch.Generator
) -> list[SampledReply]:
    """Draw one reply for each prompt, given by its token ids; batches are made of prompts of like length."""
    replies: dict[int, SampledReply] = {}
    lengths = [len(prompt) + rules.max_new_tokens for prompt in prompts]
    with torch.inference_mode(), folded(actor.policy):
        for indices in by_tokens(lengths, rules.tokens_per_pass):
            drawn = _Batch(actor, [prompts[index] for index in indices], rules, generator).draw()
            replies.update(zip(indices, drawn, strict=True))
    return [replies[index] for index in range(len(prompts))]


def shared_prefix(rows: Sequence[list[int]]) -> int:
    """How many tokens all rows begin with; at least the last token of each row is left out."""
    # In the order of lists, what the smallest and the largest row share is shared by all rows between them.
    first, last = min(rows), max(rows)
    same = next((number for number, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), None)
    shortest = min(len(row) for row in rows)
    return min(shortest - 1, shortest if same is None else same)


class _Batch:
    """Prompts whose replies are drawn side by side; a row whose reply has ended leaves the batch.

    A prompt that comes several times, as for the best of n replies or for a group of one episode, is read once.
    """

    def __init__(
        self, actor: ActorCritic, prompts: list[list[int]], rules: SamplingRules, generator: torch.Generator
    ) -> None:
        self._actor, self._rules, self._generator = actor, rules, generator
        device = generator.device
        numbers: dict[tuple[int, ...], int] = {}
        which = [numbers.setdefault(tuple(prompt), len(numbers)) for prompt in prompts]
        self._which = torch.tensor(which, device=device)
        """For each row, the number of its prompt among the different ones."""
        different = [list(prompt) for prompt in numbers]
        shared = shared_prefix(different) if len(different) > 1 else 0
        # A window counts the padding between the common beginning and the rest of a shorter prompt.
        if shared < WORTHWHILE or max(map(len, different)) + rules.max_new_tokens > actor.window:
            shared = 0
        tokens, mask = pad_left([prompt[shared:] for prompt in different], rules.pad)
        self._tokens, self._mask = tokens.to(device), mask.to(device)
        self._positions = shared + positions(self._mask)
        # A layer that carries a state along has a cache of its own kind.
        room = rules.max_new_tokens
        self._cache = cache_with_room(room) if actor.window else DynamicCache(config=actor.causal.config)
        if shared:
            # The common beginning (the rules of the game) is read once, and its keys and values are copied to all rows.
            beginning = torch.tensor([different[0][:shared]], device=device)
            actor.last_hidden_state(input_ids=beginning, past_key_values=self._cache, use_cache=True)
            self._cache.batch_repeat_interleave(len(different))
            self._mask = torch.cat([self._mask.new_ones((len(different), shared)), self._mask], dim=1)
        self._rows = torch.arange(len(prompts), device=device)
        """The numbers of the rows that are still in the batch."""

    def draw(self) -> list[SampledReply]:
        """Draw all replies."""
        count, most = len(self._rows), self._rules.max_new_tokens
        device = self._rows.device
        drawn = torch.zeros((count, most), dtype=torch.long, device=device)
        logprobs, values = torch.zeros((count, most), device=device), torch.zeros((count, most), device=device)
        lengths = torch.full((count,), most, device=device)
        stops = torch.tensor(sorted(self._rules.stops), dtype=torch.long, device=device)
        for place in range(most):
            hidden = self._actor.last_hidden_state(
                input_ids=self._tokens,
                attention_mask=self._mask,
                position_ids=self._positions,
                past_key_values=self._cache,
                use_cache=True,
            )
            if place == 0 and len(hidden) < count:  # go on with one row for each reply
                self._cache.reorder_cache(self._which)
                self._mask, self._positions = self._mask[self._which], self._positions[self._which]
                hidden = hidden[self._which]
            log_all = torch.log_softmax(self._actor.logits(hidden) / self._rules.temperature, dim=-1)
            tokens = self._draw_from(log_all, count)
            rows = self._rows
            drawn[rows, place] = tokens
            logprobs[rows, place] = log_all.gather(-1, tokens[:, None])[:, 0]
            values[rows, place] = self._actor.values(hidden)
            ended = torch.isin(tokens, stops)
            lengths[rows[ended]] = place + 1
            if bool(ended.all()):
                break
            self._advance(tokens, ~ended)
        columns = (drawn.tolist(), logprobs.tolist(), values.tolist(), lengths.tolist())
        return [
            SampledReply(tokens=row[:length], logprobs=row_logprobs[:length], values=row_values[:length])
            for row, row_logprobs, row_values, length in zip(*columns, strict=True)
        ]

    def _draw_from(self, log_all: torch.Tensor, count: int) -> torch.Tensor:
        """One token for each row that is left, by the inverse of the cumulative distribution.

        A number is drawn for each row that there was, so that it does not matter which have left.
        """
        precise = torch.float32 if log_all.device.type == "mps" else torch.float64  # which Apple's GPUs do not have
        numbers = torch.rand(count, generator=self._generator, device=log_all.device, dtype=precise)[self._rows]
        cumulative = log_all.exp().cumsum(-1, dtype=precise)
        reached = torch.searchsorted(cumulative, (numbers * cumulative[:, -1])[:, None], right=True)
        return reached[:, 0].clamp(max=log_all.shape[-1] - 1)

    def _advance(self, tokens: torch.Tensor, left: torch.Tensor) -> None:
        if not bool(left.all()):
            kept = left.nonzero()[:, 0]
            self._cache.reorder_cache(kept)  # which every kind of layer has, unlike a plain selection
            self._rows, tokens = self._rows[kept], tokens[kept]
            self._mask, self._positions = self._mask[kept], self._positions[kept]
        self._tokens = tokens[:, None]
        self._positions = self._positions[:, -1:] + 1
        self._mask = torch.cat([self._mask, self._mask.new_ones((len(tokens), 1))], dim=1)


def cache_with_room(tokens: int) -> Cache:
    """An empty cache of keys and values. Once it is filled, up to `tokens` more are added in place.

    The dynamic cache of transformers makes its tensors anew for every token. With many rows, copying them takes longer
    than the attention that reads them.
    """
    return Cache(layer_class_to_replicate=partial(_LayerWithRoom, tokens))


class _LayerWithRoom(DynamicLayer):
    """The cache of one layer: `keys` and `values` are the filled parts of tensors that are longer."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room
        self._whole: list[torch.Tensor] = []
        """Keys and values with room; empty before the first tokens."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add the keys and values of tokens; returns those of all tokens."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        filled = self.get_seq_length()
        end = filled + key_states.shape[-2]
        if not self._whole or end > self._whole[0].shape[-2]:
            before, self._whole = self._whole, []
            for number, new in enumerate((key_states, value_states)):
                whole = new.new_empty((*new.shape[:-2], end + self._room, new.shape[-1]))
                if filled:
                    whole[:, :, :filled] = before[number][:, :, :filled]
                self._whole.append(whole)
        for whole, new in zip(self._whole, (key_states, value_states), strict=True):
            whole[:, :, filled:end] = new
        return self._filled(end)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each row."""
        self._whole = [whole.repeat_interleave(repeats, dim=0) for whole in self._whole]
        self._filled(self.get_seq_length())

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Keep only these rows."""
        self._whole = [whole[beam_idx] for whole in self._whole]
        self._filled(self.get_seq_length())

    def _filled(self, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys, self.values = (whole[:, :, :end] for whole in self._whole)
        return self.keys, self.values
