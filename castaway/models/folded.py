"""Makes passes through a model with LoRA adapters cheaper, by folding the adapters into the weights during a pass.

A LoRA layer normally computes two more matrix products and a sum over all tokens, forward and backward. With the folded
weight W' = W + s B A, the layer is one product. Computing W' costs as much as `rank` tokens do, and is done again for
each pass. The gradients of A and B follow directly, without a gradient of W' (Hu et al. 2021, equation 3):

    y = x W'^T      dx = dy W'      dA = s (dy B)^T x      dB = s dy^T (x A^T)

Only float32 weights are folded: in a lower precision, the small contribution of an adapter would be lost by rounding.
Layers in bfloat16 compute both products, in their own precision (`castaway/models/low_precision.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft.tuners.lora import Linear as LoraLinear
from torch import nn

from castaway.models.low_precision import adapted_linear
from castaway.models.products import LARGE, fixed_product, product


class _FoldedLinear(torch.autograd.Function):
    """Computes x W'^T + bias, with gradients for x and for the adapter's matrices A (down) and B (up)."""

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
        return product(inputs, folded, bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs, folded, down, up = ctx.saved_tensors
        to_inputs = product(gradient, folded.T) if ctx.needs_input_grad[0] else None
        rows, errors = inputs.flatten(0, -2), gradient.flatten(0, -2)
        to_down = (errors @ up).mul_(ctx.scale).T @ rows
        to_up = errors.T @ (rows @ down.T).mul_(ctx.scale)
        return to_inputs, None, None, to_down, to_up, None


PRECISIONS = (torch.float32, torch.bfloat16)
"""Of the layers that are made cheaper."""
HUGE = 2**22
"""Number of elements of a weight whose layout is worth a change for one pass."""


@contextmanager
def folded(model: nn.Module) -> Iterator[None]:
    """Context in which the model's LoRA layers use folded weights; layers that cannot be folded are left as they are.

    In inference mode a large LM head is laid out for sampling as well.

    If the adapters are disabled, the layers use the base weights. Neither the weights nor which adapter is active may
    change inside the context; a context inside another one changes nothing. The backward pass may come after it. With
    gradient checkpointing nothing is folded for training: the backward pass would compute the layers again, after this
    context, and all folded weights are in memory until then. Layers in bfloat16 are left to PEFT then in every pass, so
    that training rounds as scoring does.
    """
    head = _packed_head(model)
    checkpointing = getattr(model, "is_activation_checkpointing", False)
    precisions = (torch.float32,) if checkpointing else PRECISIONS
    modules = [] if checkpointing and torch.is_grad_enabled() else model.modules()
    layers = [
        module
        for module in modules
        if isinstance(module, LoraLinear) and "forward" not in vars(module) and _can_be_folded(module, precisions)
    ]
    for layer in layers:
        layer.forward = _forward(layer)
    try:
        with head:
            yield
    finally:
        for layer in layers:
            del layer.forward


@contextmanager
def _packed_head(model: nn.Module) -> Iterator[None]:
    """Context in which a large frozen LM head has its weight in oneDNN's layout, for sampling.

    Otherwise it would be brought into that layout for every token, which takes longer than the product itself.
    """
    owner: Any = model
    head: Any = owner.get_output_embeddings() if hasattr(owner, "get_output_embeddings") else None
    plain = type(head) is nn.Linear and head.weight.dtype in PRECISIONS and not head.weight.requires_grad
    if not plain or head.weight.numel() < HUGE or not torch.is_inference_mode_enabled() or not head.weight.is_cpu:
        yield
        return
    before = vars(head).get("forward")
    head.forward = fixed_product(head.weight.detach(), head.bias)
    try:
        yield
    finally:
        del head.forward
        if before is not None:
            head.forward = before


def _can_be_folded(layer: LoraLinear, precisions: tuple[torch.dtype, ...]) -> bool:
    """Whether this is a frozen layer in one of the precisions with one active plain LoRA adapter without dropout.

    Or with none, if it is large: a small layer without an adapter is as fast as it is.
    """
    base: Any = layer.get_base_layer()
    # A sharded weight is no plain parameter: it is whole inside its block's forward function only.
    whole = type(base) is nn.Linear and type(base.weight) is nn.Parameter
    if not whole or base.weight.dtype not in precisions or base.weight.requires_grad or layer.merged:
        return False
    active = layer.active_adapters
    if layer.disable_adapters and not active:
        return not torch.is_grad_enabled() and bool(base.weight.numel() >= LARGE)
    return (
        not (layer.disable_adapters and torch.is_grad_enabled())
        and len(active) == 1
        and active[0] in layer.lora_A
        and active[0] not in layer.lora_variant
        and isinstance(layer.lora_dropout[active[0]], nn.Identity)
    )


def _forward(layer: LoraLinear) -> Callable[[torch.Tensor], torch.Tensor]:
    """The layer's forward function with its folded weight."""
    base: Any = layer.get_base_layer()
    if layer.disable_adapters:
        return fixed_product(base.weight.detach(), base.bias)
    name = layer.active_adapters[0]
    down: Any = layer.lora_A[name].weight
    up: Any = layer.lora_B[name].weight
    scale = float(layer.scaling[name])
    if base.weight.dtype is torch.bfloat16:
        return adapted_linear(base.weight.detach(), base.bias, down, up, scale)
    weight = torch.addmm(base.weight.detach(), up.detach(), down.detach(), alpha=scale)
    if weight.numel() >= LARGE and torch.is_inference_mode_enabled():
        return fixed_product(weight, base.bias)

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _FoldedLinear.apply(inputs, weight, base.bias, down, up, scale)
        return result

    return forward
