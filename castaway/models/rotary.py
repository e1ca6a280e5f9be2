"""Rotary position embeddings of Llama's layers in half of the passes over memory, with the same bits.

A pair of components (x, y) of a query or a key turns by the angle of its position (Su et al. 2021, arXiv:2104.09864):

    x' = x cos - y sin    y' = y cos + x sin

The function of transformers makes six tensors for that, forward, and more backward; a turn backwards is the gradient.
In PPO with the tiny model that was a twelfth of all time.
"""

from typing import Any

import torch
from transformers.models.llama import modeling_llama


def use_in_llama() -> None:
    """From now on, all Llama models of this process compute by `rotate`."""
    modeling_llama.apply_rotary_pos_emb = rotate


def rotate(
    query: torch.Tensor, key: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Query and key (batch, heads, tokens, size), rotated; `cos` and `sin` are (batch, tokens, size)."""
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    turn: Any = _Rotation.apply if torch.is_grad_enabled() else _turned
    return turn(query, cos, sin), turn(key, cos, sin)


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(cos, sin)
        return _turned(states, cos, sin)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turned(gradient, cos, -sin), None, None


def _turned(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = states.shape[-1] // 2
    turned = states * cos
    # Not `addcmul_`, which rounds once where two operations round twice.
    turned[..., :half].sub_(states[..., half:] * sin[..., :half])
    turned[..., half:].add_(states[..., :half] * sin[..., half:])
    return turned
