"""Computes hidden states at a few positions of each row, and skips the last block's work at all others.

Training needs the hidden states only at the tokens of a reply, scoring only at the last token. Most of a row is the
prompt. In the last block it needs keys and values, but neither residual nor MLP after the attention.
"""

from __future__ import annotations

from typing import Any

import torch

KNOWN_BLOCKS = ("LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer")
"""Decoder blocks that compute x + attention(norm(x)), then x + mlp(norm(x)). Others with the same attributes may not:
Granite scales its residuals."""


def hidden_states_at(decoder: Any, places: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
    """The final hidden states of a transformers decoder at some positions of each row.

    For unknown kinds of blocks, the whole decoder is computed.

    Args:
        decoder: a model without its head.
        places: indices of tokens, of shape (rows, places).
        inputs: arguments of the decoder, such as `input_ids` of shape (rows, tokens).

    Returns:
        Shape (rows, places, width): `decoder(**inputs).last_hidden_state` at these positions.
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

    # An attribute of the instance hides the method of the class; deleting it restores the method.
    block.forward = forward
    try:
        states = decoder(**inputs).last_hidden_state
    finally:
        del block.forward
    return states
