"""Layers with adapters in bfloat16: as exact as PEFT's, and small contributions are not lost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from castaway.models.folded import folded


class One(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, 40)
        self.is_activation_checkpointing = False

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.first(inputs)
        return result


def adapted(width: int, up: float) -> tuple[Any, Any]:
    """A layer in bfloat16 with an adapter whose matrix B is of this size; and the same in float32."""
    torch.manual_seed(0)
    model: Any = get_peft_model(One(width).to(torch.bfloat16), LoraConfig(r=4, lora_alpha=6, target_modules=["first"]))
    exact: Any = get_peft_model(One(width), LoraConfig(r=4, lora_alpha=6, target_modules=["first"]))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(weight, std=up)
    exact.load_state_dict({name: weight.float() for name, weight in model.state_dict().items()})
    return model, exact


def results(model: Any, inputs: torch.Tensor, cheaper: bool) -> list[torch.Tensor]:
    """Outputs, and the gradients of the inputs and of both matrices."""
    leaf = inputs.clone().requires_grad_()
    if cheaper:
        with folded(model):
            assert "forward" in vars(model.get_base_model().first)
            result = model(leaf)
    else:
        result = model(leaf)
    (result.float() ** 2).sum().backward()
    assert leaf.grad is not None
    gradients = [weight.grad for weight in model.parameters() if weight.requires_grad]
    return [result.detach(), leaf.grad, *gradients]


@pytest.mark.parametrize("shape", [(7, 24), (2, 5, 24), (300, 24)])
def test_outputs_and_gradients_are_as_near_to_the_exact_ones_as_those_of_peft(shape: tuple[int, ...]) -> None:
    model, exact = adapted(24, up=0.3)
    inputs = torch.randn(shape, dtype=torch.bfloat16)
    wanted = results(exact, inputs.float(), cheaper=False)
    for cheaper in (False, True):
        model.zero_grad()
        found = results(model, inputs, cheaper)
        assert [one.dtype for one in found] == [torch.bfloat16] * 2 + [torch.float32] * 2
        for one, other in zip(found, wanted, strict=True):
            assert (one.float() - other).norm() < 0.01 * other.norm()  # bfloat16 has 8 bits


def test_a_contribution_smaller_than_the_rounding_of_the_weights_is_not_lost() -> None:
    model, exact = adapted(512, up=1e-4)
    inputs = torch.randn(64, 512, dtype=torch.bfloat16)
    layer, precise = model.get_base_model().first, exact.get_base_model().first
    narrow, wide = precise.lora_A["default"].weight, precise.lora_B["default"].weight
    rounded = (precise.base_layer.weight + precise.scaling["default"] * wide @ narrow).to(torch.bfloat16)
    assert (rounded != layer.base_layer.weight).float().mean() < 0.2  # folded, four fifths of it would vanish
    with torch.no_grad(), folded(model):
        layer.base_layer.weight.zero_()
        layer.base_layer.bias.zero_()
        found = model(inputs)
        wanted = inputs.float() @ narrow.T @ wide.T * precise.scaling["default"]
    assert (found.float() - wanted).norm() < 0.01 * wanted.norm()


def test_sampling_and_scoring_give_the_same_outputs() -> None:
    model, _ = adapted(512, up=0.1)
    inputs = torch.randn(70, 512, dtype=torch.bfloat16)
    with torch.no_grad(), folded(model):
        scored = model(inputs)
    with torch.inference_mode(), folded(model):
        sampled = model(inputs)
    assert (scored.float() - sampled.float()).norm() < 0.005 * scored.float().norm()


def test_with_gradient_checkpointing_the_layers_are_left_to_peft() -> None:
    model, _ = adapted(24, up=0.3)
    model.get_base_model().is_activation_checkpointing = True
    for context in (torch.enable_grad(), torch.no_grad(), torch.inference_mode()):
        with context, folded(model):
            assert "forward" not in vars(model.get_base_model().first)
