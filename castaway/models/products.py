"""Products of rows with frozen weights on a CPU, by oneDNN: MKL's kernels are slow on processors of other makers.

On an AMD EPYC, a layer of 576 by 1,536 reaches 190 Gflop/s by MKL and 420 by oneDNN (128 rows, float32, two threads).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear

MANY_ROWS, FEW_ROWS = 256, 16
"""Number of rows from which oneDNN is faster than MKL, with any weight and with a large one."""
LARGE = 2**17
"""Number of elements of a large weight."""
ROWS = 64
"""Number of rows that weights for sampling are laid out for; other numbers work as well."""


def product(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`linear`; for many rows on a CPU by the operator that torch's compiler replaces linear layers with."""
    fewest = FEW_ROWS if weight.numel() >= LARGE else MANY_ROWS
    if rows.is_cpu and rows.numel() >= fewest * rows.shape[-1] and torch.backends.mkldnn.is_available():
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
        return result
    return linear(rows, weight, bias)


def fixed_product(weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[[torch.Tensor], torch.Tensor]:
    """The product of rows with a weight that stays the same."""
    if weight.is_cpu and weight.numel() >= LARGE and torch.is_inference_mode_enabled():
        # In the layout that oneDNN computes with, it need not be brought into it for each of a hundred tokens.
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)
        return lambda rows: torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
    return lambda rows: product(rows, weight, bias)


class FrozenLinear(torch.autograd.Function):
    """Computes x W^T + bias, with a gradient for x only."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """The product; inputs (..., in), weight (out, in)."""
        ctx.save_for_backward(weight)
        return product(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """The gradient of the inputs."""
        (weight,) = ctx.saved_tensors
        return product(gradient, weight.T), None, None


def use_for_head(causal: Any) -> None:
    """Let the LM head of a causal language model compute by `product` while its weights are frozen, in float32."""
    head: Any = causal.get_output_embeddings()
    plain: bool = type(head) is nn.Linear
    if not plain or head.weight.numel() < LARGE:
        return

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        if head.weight.requires_grad or head.weight.dtype is not torch.float32:
            return linear(inputs, head.weight, head.bias)
        result: torch.Tensor = FrozenLinear.apply(inputs, head.weight, head.bias)
        return result

    head.forward = forward
