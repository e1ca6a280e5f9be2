"""LoRA without its price: for the length of a pass, the adapter is folded into the weights.

Beside the weights, an adapter costs each linear layer two more products and a sum over all tokens, forward and
backward. Folded, W' = W + s B A, the layer is one product; W' costs as much as `rank` tokens do, and is made anew for
each pass. The gradients are those of the adapter, worked out for A and B without W' (Hu et al. 2021, equation 3):

    y = x W'^T      dx = dy W'      dA = s (dy B)^T x      dB = s dy^T (x A^T)

Only in float32: in fewer bits, small changes of a weight would be rounded away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft.tuners.lora import Linear as LoraLinear
from torch import nn
from torch.nn.functional import linear

MANY_ROWS = 256
"""From so many rows on oneDNN is faster than MKL."""


class _FoldedLinear(torch.autograd.Function):
    """x W'^T + bias, whose gradients go to the adapter."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: torch.Tensor,
        folded: torch.Tensor,
        bias: torch.Tensor | None,
        down: torch.Tensor,
        up: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        ctx.save_for_backward(inputs, folded, down, up)
        ctx.scale = scale
        return _product(inputs, folded, bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs, folded, down, up = ctx.saved_tensors
        to_inputs = _product(gradient, folded.T) if ctx.needs_input_grad[0] else None
        rows, errors = inputs.flatten(0, -2), gradient.flatten(0, -2)
        to_down = (errors @ up).mul_(ctx.scale).T @ rows
        to_up = errors.T @ (rows @ down.T).mul_(ctx.scale)
        return to_inputs, None, None, to_down, to_up, None


def _product(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`linear`, for many rows on a CPU by oneDNN, whose kernels suit more processors than those of MKL.

    The operator is the one that torch's own compiler puts in the place of a linear layer.
    """
    if rows.is_cpu and rows.numel() >= MANY_ROWS * rows.shape[-1] and torch.backends.mkldnn.is_available():
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
        return result
    return linear(rows, weight, bias)


@contextmanager
def folded(model: nn.Module) -> Iterator[None]:
    """Inside, the model's linear layers run with their adapters folded in, or off if they are; other kinds as ever.

    The weights must not change inside. A backward pass may come later.
    """
    layers = [module for module in model.modules() if isinstance(module, LoraLinear) and _can_be_folded(module)]
    for layer in layers:
        layer.forward = _forward(layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _can_be_folded(layer: LoraLinear) -> bool:
    base: Any = layer.get_base_layer()
    plain = type(base) is nn.Linear and base.weight.dtype is torch.float32 and not base.weight.requires_grad
    active = layer.active_adapters
    return (
        plain
        and not (layer.disable_adapters and torch.is_grad_enabled())
        and not layer.merged
        and len(active) == 1
        and active[0] in layer.lora_A
        and active[0] not in layer.lora_variant
        and isinstance(layer.lora_dropout[active[0]], nn.Identity)
    )


def _forward(layer: LoraLinear) -> Callable[[torch.Tensor], torch.Tensor]:
    base: Any = layer.get_base_layer()
    if layer.disable_adapters:
        return lambda inputs: _product(inputs, base.weight.detach(), base.bias)
    name = layer.active_adapters[0]
    down: Any = layer.lora_A[name].weight
    up: Any = layer.lora_B[name].weight
    scale = float(layer.scaling[name])
    weight = torch.addmm(base.weight.detach(), up.detach(), down.detach(), alpha=scale)

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _FoldedLinear.apply(inputs, weight, base.bias, down, up, scale)
        return result

    return forward
