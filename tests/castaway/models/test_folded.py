"""Layers with adapters compute what PEFT's do, folded or in bfloat16, and are left as they were."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from castaway.models.folded import folded
from castaway.models.policy import using


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 10)
        self.second = nn.Linear(10, 4, bias=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(torch.tanh(self.first(inputs)))
        return result


class One(nn.Module):
    def __init__(self, width: int, out: int = 40) -> None:
        super().__init__()
        self.first = nn.Linear(width, out)
        self.is_activation_checkpointing = False

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.first(inputs)
        return result


def adapted() -> Any:
    """Two linear layers whose adapters change something."""
    torch.manual_seed(0)
    config = LoraConfig(r=3, lora_alpha=5, target_modules=["first", "second"])
    model: Any = get_peft_model(TwoLayers(), config)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(weight)
    return model


def outputs_and_gradients(model: Any, inputs: torch.Tensor, fold: bool) -> list[torch.Tensor]:
    model.zero_grad()
    inputs = inputs.clone().requires_grad_()
    with folded(model) if fold else nullcontext():
        assert ("forward" in vars(model.get_base_model().first)) == fold
        result = model(inputs)
    (result.float() ** 2).sum().backward()
    gradients = [weight.grad.clone() for weight in model.parameters() if weight.requires_grad]
    assert inputs.grad is not None
    return [result.detach(), inputs.grad, *gradients]


@pytest.mark.parametrize("shape", [(7, 6), (3, 100, 6)])
def test_it_gives_the_outputs_and_gradients_of_peft(shape: tuple[int, ...]) -> None:
    model, inputs = adapted(), torch.randn(shape)
    plain = outputs_and_gradients(model, inputs, fold=False)
    fast = outputs_and_gradients(model, inputs, fold=True)
    assert len(plain) == 2 + 4
    for one, other in zip(plain, fast, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_the_layers_are_as_before_afterwards() -> None:
    model, inputs = adapted(), torch.randn(5, 6)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    plain = model(inputs)
    with pytest.raises(RuntimeError, match="inside"), folded(model):
        raise RuntimeError("inside")
    assert torch.equal(model(inputs), plain)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any("forward" in vars(module) for module in model.modules())


@pytest.mark.parametrize("rows", [5, 300])
@pytest.mark.parametrize("gradients", [True, False])
def test_an_adapter_that_is_off_stays_off(rows: int, gradients: bool) -> None:
    model, inputs = adapted(), torch.randn(rows, 6).requires_grad_(gradients)
    with torch.set_grad_enabled(gradients), model.disable_adapter():
        plain = model(inputs)
        with folded(model):
            result = model(inputs)
    torch.testing.assert_close(result, plain)
    assert result.requires_grad == gradients
    assert not torch.allclose(model(inputs), plain)


@pytest.mark.parametrize("rows", [1, 70])
def test_a_large_layer_without_an_active_adapter_is_multiplied_as_one_with_it(rows: int) -> None:
    torch.manual_seed(0)
    model: Any = get_peft_model(One(512, 300), LoraConfig(r=2, target_modules=["first"], init_lora_weights=False))
    inputs = torch.randn(rows, 512)
    plain = One(512, 300)
    plain.load_state_dict(model.get_base_model().first.base_layer.state_dict(prefix="first."))
    with using(model, None):
        with folded(model):  # with gradients, PEFT's own layer
            assert not any("forward" in vars(module) for module in model.modules())
        with torch.inference_mode(), folded(model):
            assert "forward" in vars(model.get_base_model().first)
            torch.testing.assert_close(model(inputs), plain(inputs), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(model(inputs), plain(inputs))


# bfloat16 ------------------------------------------------------------------------------------------------------------


def in_bfloat16(width: int, up: float) -> tuple[Any, Any]:
    """A layer in bfloat16 with an adapter whose matrix B is of this size; and the same in float32."""
    torch.manual_seed(0)
    model: Any = get_peft_model(One(width).to(torch.bfloat16), LoraConfig(r=4, lora_alpha=6, target_modules=["first"]))
    exact: Any = get_peft_model(One(width), LoraConfig(r=4, lora_alpha=6, target_modules=["first"]))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(weight, std=up)
    exact.load_state_dict({name: weight.float() for name, weight in model.state_dict().items()})
    return model, exact


@pytest.mark.parametrize("shape", [(7, 24), (3, 100, 24)])
def test_outputs_and_gradients_are_as_near_to_the_exact_ones_as_those_of_peft(shape: tuple[int, ...]) -> None:
    model, exact = in_bfloat16(24, up=0.3)
    inputs = torch.randn(shape, dtype=torch.bfloat16)
    for fold in (False, True):
        found = outputs_and_gradients(model, inputs, fold)
        assert [one.dtype for one in found] == [torch.bfloat16] * 2 + [torch.float32] * 2
        for one, other in zip(found, outputs_and_gradients(exact, inputs.float(), fold=False), strict=True):
            assert (one.float() - other).norm() < 0.01 * other.norm()  # bfloat16 has 8 bits


def test_a_contribution_smaller_than_the_rounding_of_the_weights_is_not_lost() -> None:
    model, exact = in_bfloat16(512, up=1e-4)
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


def test_with_gradient_checkpointing_the_layers_are_left_to_peft() -> None:
    model, _ = in_bfloat16(24, up=0.3)
    model.get_base_model().gradient_checkpointing = True
    for context in (torch.enable_grad(), torch.no_grad(), torch.inference_mode()):
        with context, folded(model):
            assert "forward" not in vars(model.get_base_model().first)
