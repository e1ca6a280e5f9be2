"""Hidden states at a few places of each row, and the logits of hidden states, of which only so many are held at a time.

Training needs the hidden states only at the tokens of a reply, scoring only at the last token. Most of a row is the
prompt. In the last block it needs keys and values, but neither residual nor MLP after the attention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import BaseModelOutputWithPast

CHUNK = 2**25
"""Largest number of logits that are in memory at the same time: 128 MiB in float32, and a few times that during the
backward pass. Without a limit, 128 replies of 256 tokens and a vocabulary of 128,000 would take 17 GB."""

KNOWN_BLOCKS = ("LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer")
"""Decoder blocks that compute x + attention(norm(x)), then x + mlp(norm(x)). Others with the same attributes may not:
Granite scales its residuals."""


def hidden_states_at(decoder: Any, lines: torch.Tensor, columns: torch.Tensor, **inputs: Any) -> torch.Tensor:
    """The final hidden states of a transformers decoder at some places.

    For unknown kinds of blocks, and with gradient checkpointing, the whole decoder is computed: a block is computed
    again during the backward pass then, and must be the same as before.

    Args:
        decoder: a model without its head.
        lines: (...) the line of each place in `input_ids`.
        columns: (...) the column of each place.
        inputs: arguments of the decoder, such as `input_ids` of shape (lines, tokens).

    Returns:
        Shape (..., width): `decoder(**inputs).last_hidden_state` at these places.
    """
    block = decoder.layers[-1]
    again = decoder.training and getattr(decoder, "is_activation_checkpointing", False) and torch.is_grad_enabled()
    # FSDP gives a block that it shards a class of its own.
    if type(block).__name__.removeprefix("FSDP") not in KNOWN_BLOCKS or again:
        states: torch.Tensor = decoder(**inputs).last_hidden_state[lines, columns]
        return states

    def forward(hidden_states: torch.Tensor, **settings: Any) -> torch.Tensor:
        attended, _ = block.self_attn(hidden_states=block.input_layernorm(hidden_states), **settings)
        kept = hidden_states[lines, columns] + attended[lines, columns]
        result: torch.Tensor = kept + block.mlp(block.post_attention_layernorm(kept))
        return result

    # An attribute of the instance hides the method of the class; deleting it restores the method.
    block.forward = forward
    try:
        states = decoder(**inputs).last_hidden_state
    finally:
        del block.forward
    return states


def next_token_logits(causal: Any, hidden: torch.Tensor) -> torch.Tensor:
    """The logits of final hidden states, as the model itself makes them, in its precision.

    The model's own forward function is called with a decoder that returns these hidden states: some families scale the
    logits (Granite, Cohere) or cap them (Gemma 2).

    Args:
        causal: a causal language model of transformers.
        hidden: (..., width) final hidden states of its decoder.

    Returns:
        Shape (..., vocabulary).
    """
    decoder = causal.get_decoder()
    rows = hidden.reshape(1, -1, hidden.shape[-1])
    decoder.forward = lambda *_, **__: BaseModelOutputWithPast(last_hidden_state=rows)
    try:
        logits: torch.Tensor = causal(
            input_ids=rows.new_zeros(rows.shape[:2], dtype=torch.long), use_cache=False
        ).logits
    finally:
        del decoder.forward
    return logits.reshape(*hidden.shape[:-1], logits.shape[-1])


Scores = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Of hidden states (n, width) and tokens (n): two numbers for each."""


def by_chunks(
    causal: Any, scores: Scores, hidden: torch.Tensor, tokens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `scores`, which needs the logits, gives for tokens (n) after hidden states (n, width).

    With several chunks, the backward pass computes the logits of each again, so that they are never all in memory.
    """
    size = max(1, CHUNK // causal.config.vocab_size)
    if len(tokens) <= size:
        return scores(hidden, tokens)
    pairs = zip(hidden.split(size), tokens.split(size), strict=True)
    if torch.is_grad_enabled():
        found = [checkpoint(scores, *pair, use_reentrant=False) for pair in pairs]
    else:
        found = [scores(*pair) for pair in pairs]
    first, second = zip(*found, strict=True)
    return torch.cat(first), torch.cat(second)
