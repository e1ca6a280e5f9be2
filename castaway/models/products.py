"""Products of rows with frozen weights on a CPU, by oneDNN: MKL's kernels are slow on processors of other makers.

On an AMD EPYC, a layer of 576 by 1,536 reaches 190 Gflop/s by MKL and 420 by oneDNN (128 rows, float32, two threads).
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear

MANY_ROWS, FEW_ROWS = 256, 16  # rows from which oneDNN is faster than MKL, with any weight and with a large one
LARGE = 2**17  # elements of a large weight
ROWS = 64  # number of rows that weights for sampling are laid out for; other numbers work as well
FLOAT32_ELEMENTS = 2**24  # elements of a large weight that are brought to float32 at once: 64 MiB


@lru_cache
def on_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN computes products in this type here: bfloat16 needs AVX-512, and not to be kept from using it."""
    rows = torch.zeros(FEW_ROWS, FEW_ROWS, dtype=dtype)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(rows, FEW_ROWS)
        torch.ops.mkldnn._linear_pointwise(rows, packed, None, "none", [], "")
        torch.ops.mkldnn._linear_pointwise(rows, rows, None, "none", [], "")
    except (RuntimeError, AttributeError):  # AttributeError: torch was built without oneDNN
        return False
    return True


def product(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`linear`; for many rows on a CPU by the operator that torch's compiler replaces linear layers with."""
    fewest = FEW_ROWS if weight.numel() >= LARGE else MANY_ROWS
    if rows.is_cpu and rows.numel() >= fewest * rows.shape[-1] and on_onednn(weight.dtype):
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
        return result
    return linear(rows, weight, bias)


def fixed_product(weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[[torch.Tensor], torch.Tensor]:
    """The product of rows with a weight that stays the same."""
    if weight.is_cpu and weight.numel() >= LARGE and torch.is_inference_mode_enabled() and on_onednn(weight.dtype):
        # In the layout that oneDNN computes with, it need not be brought into it for each of a hundred tokens.
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)
        return lambda rows: torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
    return lambda rows: product(rows, weight, bias)


class _FrozenLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(weight)
        return product(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        return product(gradient, weight.T), None, None


class _Float32Head(torch.autograd.Function):
    """Computes x W^T + bias in float32 from x and W in a lower precision, with a gradient for x only."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(weight)
        rows = inputs.float()
        logits = torch.cat([product(rows, some.float()) for some in _blocks(weight)], dim=-1)
        return logits if bias is None else logits + bias.float()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        blocks = _blocks(weight)
        parts = zip(gradient.split([len(some) for some in blocks], dim=-1), blocks, strict=True)
        total = sum(part @ some.float() for part, some in parts)
        assert isinstance(total, torch.Tensor)
        return total.to(weight.dtype), None, None


def _blocks(weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Rows of a weight, as many at a time as are brought to float32 at once."""
    blocks: tuple[torch.Tensor, ...] = weight.split(max(1, FLOAT32_ELEMENTS // weight.shape[-1]))
    return blocks


@contextmanager
def forward_of(layer: Any, forward: Callable[..., Any]) -> Iterator[None]:
    """Context in which a layer computes by another function: an attribute hides the method of its class."""
    before = vars(layer).get("forward")
    layer.forward = forward
    try:
        yield
    finally:
        del layer.forward
        if before is not None:
            layer.forward = before


def float32_head(causal: Any) -> AbstractContextManager[None]:
    """Context in which a causal language model makes its logits in float32, whatever its weights are.

    In bfloat16 a logit near 18 is rounded to a multiple of 1/8. Divided by a temperature of 0.3, that moves a drawn
    token's log-probability by more than a clip range. The weights are as they are, and so are the products of two of
    them in float32: only sums are no longer rounded. As TRL's `cast_lm_head_to_fp32`, without a second head in memory.
    """
    head: Any = causal.get_output_embeddings()
    if head.weight.dtype is torch.float32:
        return nullcontext()
    return forward_of(head, lambda inputs: _Float32Head.apply(inputs, head.weight, head.bias))


def use_for_head(causal: Any) -> None:
    """Let the LM head of a causal language model compute by `product` while its weights are frozen, in float32."""
    head: Any = causal.get_output_embeddings()
    plain: bool = type(head) is nn.Linear
    if not plain or head.weight.numel() < LARGE:
        return

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        if head.weight.requires_grad or head.weight.dtype is not torch.float32:
            return linear(inputs, head.weight, head.bias)
        result: torch.Tensor = _FrozenLinear.apply(inputs, head.weight, head.bias)
        return result

    head.forward = forward
