"""Linear layers with a LoRA adapter on frozen bfloat16 weights: both computed in bfloat16, kept apart.

    y = x W^T + s (x A^T) B^T      dx = dy W + s (dy B) A      dA = s (dy B)^T x      dB = s dy^T (x A^T)

(Hu et al. 2021, equation 3.) The adapter's matrices A and B stay in float32 for the optimiser and are rounded for each
pass, as in mixed precision (Micikevicius et al. 2018). They are not folded into W: rounded to W's precision, a small
contribution would be lost. PEFT's own layer converts the inputs to float32 and keeps them so for the backward pass,
which takes twice the memory and, where the processor multiplies bfloat16 faster, several times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from castaway.models.products import fixed_product, product


class _AdaptedLinear(torch.autograd.Function):
    """Computes x W^T + bias + s (x A^T) B^T, with gradients for x, A and B."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        down: torch.Tensor,
        up: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        rows, narrow, wide = inputs.flatten(0, -2), down.to(weight.dtype), up.to(weight.dtype)
        middle = rows @ narrow.T
        ctx.save_for_backward(rows, weight, narrow, wide, middle)
        ctx.scale = scale
        result = product(rows, weight, bias).addmm_(middle, wide.T, alpha=scale)
        return result.unflatten(0, inputs.shape[:-1])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight, narrow, wide, middle = ctx.saved_tensors
        errors = gradient.flatten(0, -2)
        through = (errors @ wide).mul_(ctx.scale)
        to_inputs = None
        if ctx.needs_input_grad[0]:
            to_inputs = (errors @ weight).addmm_(through, narrow).unflatten(0, gradient.shape[:-1])
        to_down = (through.T @ rows).float()
        to_up = (errors.T @ middle).mul_(ctx.scale).float()
        return to_inputs, None, None, to_down, to_up, None


def adapted_linear(
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    down: torch.Tensor,
    up: torch.Tensor,
    scale: float,
) -> Callable[[torch.Tensor], torch.Tensor]:
    """A layer's forward function.

    Args:
        weight: (out, in) the frozen weight, in bfloat16.
        bias: (out) or none.
        down: (rank, in) the adapter's matrix A, in float32.
        up: (out, rank) its matrix B, in float32.
        scale: of the adapter's contribution.
    """
    if torch.is_inference_mode_enabled():
        plain, narrow, wide = fixed_product(weight, bias), down.to(weight.dtype), (up * scale).to(weight.dtype)

        def infer(inputs: torch.Tensor) -> torch.Tensor:
            rows = inputs.flatten(0, -2)
            return plain(rows).addmm_(rows @ narrow.T, wide.T).unflatten(0, inputs.shape[:-1])

        return infer

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _AdaptedLinear.apply(inputs, weight, bias, down, up, scale)
        return result

    return forward
