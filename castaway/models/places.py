"""Hidden states at a few places of each row, without the last block's work for all others.

Training reads a model before each token of a reply, scoring reads it at the last token; the prompt, most of a row, is
there to be attended to. So in the last block it needs keys and values, but nothing that comes after the attention.
"""

from __future__ import annotations

from typing import Any

import torch

KNOWN_BLOCKS = ("LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer")
"""x + attention(norm(x)), then x + mlp(norm(x)). Others look alike and are not: Granite scales its residuals."""


def hidden_states_at(decoder: Any, places: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
    """The final hidden states of a transformers decoder at some places of each row.

    Args:
        decoder: without its head.
        places: (rows, places) indices of tokens.
        inputs: of the decoder; (rows, tokens) `input_ids` and others.

    Returns:
        (rows, places, width), the same as `decoder(**inputs).last_hidden_state` there.
    """
    rows = torch.arange(len(places), device=places.device)[:, None]
    block = decoder.layers[-1]
    if type(block).__name__ not in KNOWN_BLOCKS:
        states: torch.Tensor = decoder(**inputs).last_hidden_state[rows, places]
        return states

    def forward(hidden_states: torch.Tensor, **settings: Any) -> torch.Tensor:
        attended, _ = block.self_attn(hidden_states=block.input_layernorm(hidden_states), **settings)
        kept = hidden_states[rows, places] + attended[rows, places]
        result: torch.Tensor = kept + block.mlp(block.post_attention_layernorm(kept))
        return result

    block.forward = forward
    try:
        states = decoder(**inputs).last_hidden_state
    finally:
        del block.forward
    return states
