"""The folded adapter computes what PEFT's layers compute, and leaves them as they were."""

from __future__ import annotations

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


def adapted(dropout: float = 0.0, dtype: torch.dtype = torch.float32) -> Any:
    """Two linear layers whose adapters change something."""
    torch.manual_seed(0)
    config = LoraConfig(r=3, lora_alpha=5, target_modules=["first", "second"], lora_dropout=dropout)
    model: Any = get_peft_model(TwoLayers().to(dtype), config)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(weight)
    return model


def outputs_and_gradients(model: Any, inputs: torch.Tensor, fold: bool) -> list[torch.Tensor]:
    model.zero_grad()
    inputs = inputs.clone().requires_grad_()
    if fold:
        with folded(model):
            result = model(inputs)
    else:
        result = model(inputs)
    (result**2).sum().backward()
    gradients = [weight.grad.clone() for weight in model.parameters() if weight.requires_grad]
    assert inputs.grad is not None
    return [result.detach(), inputs.grad, *gradients]


@pytest.mark.parametrize("shape", [(7, 6), (2, 5, 6), (300, 6), (3, 100, 6)])
def test_it_gives_the_outputs_and_gradients_of_peft(shape: tuple[int, ...]) -> None:
    model, inputs = adapted(), torch.randn(shape)
    plain = outputs_and_gradients(model, inputs, fold=False)
    fast = outputs_and_gradients(model, inputs, fold=True)
    assert len(plain) == 2 + 4
    for one, other in zip(plain, fast, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_its_gradients_are_those_of_finite_differences() -> None:
    from castaway.models.folded import _FoldedLinear

    torch.manual_seed(0)
    weight, bias = torch.randn(4, 6, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    inputs, down, up = (torch.randn(*s, dtype=torch.float64).requires_grad_() for s in ((5, 6), (3, 6), (4, 3)))

    def run(inputs: torch.Tensor, down: torch.Tensor, up: torch.Tensor) -> Any:
        # Through the folded weight itself no gradient flows: what it depends on gets its own.
        return _FoldedLinear.apply(inputs, (weight + 0.5 * up @ down).detach(), bias, down, up, 0.5)

    result = run(inputs, down, up)
    errors = torch.randn_like(result)
    result.backward(errors)
    for number, leaf in enumerate((inputs, down, up)):
        numerical = torch.zeros_like(leaf)
        for place in range(leaf.numel()):
            leaves = [inputs.detach(), down.detach(), up.detach()]
            step = torch.zeros(leaf.numel(), dtype=torch.float64)
            step[place] = 1e-6
            above, below = list(leaves), list(leaves)
            above[number] = leaves[number] + step.view_as(leaf)
            below[number] = leaves[number] - step.view_as(leaf)
            numerical.view(-1)[place] = ((run(*above) - run(*below)) * errors).sum() / 2e-6
        torch.testing.assert_close(leaf.grad, numerical, rtol=1e-6, atol=1e-6)


def test_no_gradient_is_worked_out_for_inputs_that_need_none() -> None:
    model, inputs = adapted(), torch.randn(5, 6)
    with folded(model):
        model(inputs).sum().backward()
    assert inputs.grad is None
    assert all(weight.grad is not None for weight in model.parameters() if weight.requires_grad)


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


def test_a_layer_with_dropout_is_left_to_peft() -> None:
    model = adapted(dropout=0.5)
    with folded(model):
        assert not any("forward" in vars(module) for module in model.modules())


class OneLarge(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(512, 300)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.first(inputs)
        return result


@pytest.mark.parametrize("rows", [1, 70])
def test_a_large_layer_without_an_active_adapter_is_multiplied_as_one_with_it(rows: int) -> None:
    torch.manual_seed(0)
    model: Any = get_peft_model(OneLarge(), LoraConfig(r=2, target_modules=["first"], init_lora_weights=False))
    inputs = torch.randn(rows, 512)
    plain = OneLarge()
    plain.load_state_dict(model.get_base_model().first.base_layer.state_dict(prefix="first."))
    with using(model, None):
        with folded(model):  # with gradients, PEFT's own layer
            assert not any("forward" in vars(module) for module in model.modules())
        with torch.inference_mode(), folded(model):
            assert "forward" in vars(model.get_base_model().first)
            torch.testing.assert_close(model(inputs), plain(inputs), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(model(inputs), plain(inputs))


def test_a_context_inside_another_one_folds_nothing_again() -> None:
    model, inputs = adapted(), torch.randn(5, 6)
    with torch.inference_mode(), folded(model):
        first = [vars(module)["forward"] for module in model.modules() if "forward" in vars(module)]
        with folded(model):
            inside = model(inputs)
        assert [vars(module)["forward"] for module in model.modules() if "forward" in vars(module)] == first
        assert len(first) == 2 and torch.equal(model(inputs), inside)
