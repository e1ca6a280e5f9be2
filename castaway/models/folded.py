"""Makes passes through a model with LoRA adapters cheaper: by folding adapters into the weights, or in bfloat16.

A LoRA layer normally computes two more matrix products and a sum over all tokens, forward and backward. With the folded
weight W' = W + s B A, the layer is one product. Computing W' costs as much as `rank` tokens do, and is done again for
each pass. The gradients of A and B follow directly, without a gradient of W' (Hu et al. 2021, equation 3):

    y = x W'^T      dx = dy W'      dA = s (dy B)^T x      dB = s dy^T (x A^T)

Only float32 weights are folded: rounded to a lower precision, an adapter's small contribution would be lost. Layers in
bfloat16 compute both products in bfloat16 and keep them apart. A and B stay in float32 for the optimiser and are
rounded for each pass, as in mixed precision (Micikevicius et al. 2018):

    y = x W^T + s (x A^T) B^T      dx = dy W + s (dy B) A

PEFT's own layer converts the inputs to float32 and keeps them so for the backward pass, which takes twice the memory
and, where the processor multiplies bfloat16 faster, several times as long.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from peft.tuners.lora import Linear as LoraLinear
from torch import Tensor, nn

from castaway.models.modules import is_checkpointing, modules_of
from castaway.models.products import LARGE, fixed_product, forward_of, product


class _FoldedLinear(torch.autograd.Function):
    """Computes x W'^T + bias, with gradients for x and for the adapter's matrices A (down) and B (up)."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, folded: Tensor, bias: Tensor | None, down: Tensor, up: Tensor, scale: float
    ) -> Tensor:
        ctx.save_for_backward(inputs, folded, down, up)
        ctx.scale = scale
        return product(inputs, folded, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, folded, down, up = ctx.saved_tensors
        to_inputs = product(gradient, folded.T) if ctx.needs_input_grad[0] else None
        rows, errors = inputs.flatten(0, -2), gradient.flatten(0, -2)
        to_down = (errors @ up).mul_(ctx.scale).T @ rows
        to_up = errors.T @ (rows @ down.T).mul_(ctx.scale)
        return to_inputs, None, None, to_down, to_up, None


class _AdaptedLinear(torch.autograd.Function):
    """Computes x W^T + bias + s (x A^T) B^T, with gradients for x, A and B."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, down: Tensor, up: Tensor, scale: float
    ) -> Tensor:
        rows, narrow, wide = inputs.flatten(0, -2), down.to(weight.dtype), up.to(weight.dtype)
        middle = rows @ narrow.T
        ctx.save_for_backward(rows, weight, narrow, wide, middle)
        ctx.scale = scale
        return product(rows, weight, bias).addmm_(middle, wide.T, alpha=scale).unflatten(0, inputs.shape[:-1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, narrow, wide, middle = ctx.saved_tensors
        errors = gradient.flatten(0, -2)
        through = (errors @ wide).mul_(ctx.scale)
        to_inputs = None
        if ctx.needs_input_grad[0]:
            to_inputs = (errors @ weight).addmm_(through, narrow).unflatten(0, gradient.shape[:-1])
        to_down = (through.T @ rows).float()
        to_up = (errors.T @ middle).mul_(ctx.scale).float()
        return to_inputs, None, None, to_down, to_up, None


PRECISIONS = (torch.float32, torch.bfloat16)  # Of the layers that are made cheaper
HUGE = 2**22  # number of elements of a weight whose layout is worth a change for one pass


@contextmanager
def folded(model: nn.Module) -> Iterator[None]:
    """Context in which the model's LoRA layers use folded weights; layers that cannot be folded are left as they are.

    In inference mode a large LM head in float32 is laid out for sampling as well. Inside, neither the weights nor which
    adapter is active may change; the backward pass may come after it. With gradient checkpointing nothing is folded for
    training, since the backward pass computes the layers again after this context, and layers in bfloat16 are left to
    PEFT in every pass, so that training rounds as scoring does.
    """
    checkpointing = is_checkpointing(model)
    precisions = (torch.float32,) if checkpointing else PRECISIONS
    layers = [
        module
        for module in ([] if checkpointing and torch.is_grad_enabled() else modules_of(model))
        if isinstance(module, LoraLinear) and "forward" not in vars(module) and _can_be_folded(module, precisions)
    ]
    with ExitStack() as stack:
        for layer in layers:
            stack.enter_context(forward_of(layer, _forward(layer)))
        head: Any = getattr(model, "get_output_embeddings", lambda: None)()
        if _is_worth_packing(head):
            stack.enter_context(forward_of(head, fixed_product(head.weight.detach(), head.bias)))
        yield


def _is_worth_packing(head: Any) -> bool:
    """Whether a large frozen LM head samples on a CPU: to lay it out for every token takes longer than the product.

    In bfloat16 `float32_head` computes in its place.
    """
    if type(head) is not nn.Linear or head.weight.dtype is not torch.float32 or head.weight.requires_grad:
        return False
    return head.weight.numel() >= HUGE and torch.is_inference_mode_enabled() and head.weight.is_cpu


def _can_be_folded(layer: LoraLinear, precisions: tuple[torch.dtype, ...]) -> bool:
    """Whether a frozen layer has one active plain LoRA adapter without dropout; or none, if it is large."""
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


def _forward(layer: LoraLinear) -> Callable[[Tensor], Tensor]:
    base: Any = layer.get_base_layer()
    weight, bias = base.weight.detach(), base.bias
    if layer.disable_adapters:
        return fixed_product(weight, bias)
    name = layer.active_adapters[0]
    down: Any = layer.lora_A[name].weight
    up: Any = layer.lora_B[name].weight
    scale = float(layer.scaling[name])
    if weight.dtype is torch.float32:
        whole = torch.addmm(weight, up.detach(), down.detach(), alpha=scale)
        if torch.is_inference_mode_enabled():
            return fixed_product(whole, bias)
        return lambda inputs: _FoldedLinear.apply(inputs, whole, bias, down, up, scale)
    if not torch.is_inference_mode_enabled():
        return lambda inputs: _AdaptedLinear.apply(inputs, weight, bias, down, up, scale)
    plain, narrow, wide = fixed_product(weight, bias), down.to(weight.dtype), (up * scale).to(weight.dtype)

    def infer(inputs: Tensor) -> Tensor:
        rows = inputs.flatten(0, -2)
        return plain(rows).addmm_(rows @ narrow.T, wide.T).unflatten(0, inputs.shape[:-1])

    return infer
