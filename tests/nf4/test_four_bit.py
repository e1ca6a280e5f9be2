"""Weights in 4 bits: earlier adapters beside them, and an export that computes what was trained."""

from pathlib import Path
from typing import Any

import pytest
import torch

from castaway.config.sections import LoraParams
from castaway.models.four_bit import dequantised, is_four_bit
from castaway.models.policy import load_model, new_adapter, save_adapter, using
from castaway.models.trainers import keep_precision, trained_weights
from castaway.tools.check_model import check_folder
from tests.castaway.rl.small import stirred
from tests.families import write_family

LORA = LoraParams(rank=8, alpha=8)
TOKENS = torch.arange(3, 35).reshape(2, 16)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of the family of Qwen2.5."""
    return write_family("qwen2", tmp_path_factory.mktemp("four") / "model", ["ACTION: LEFT", "which way"] * 5)


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=TOKENS).logits.float()
    return found


def divergence(one: torch.Tensor, other: torch.Tensor) -> float:
    """The mean KL divergence KL(one || other), in nats."""
    first, second = torch.log_softmax(one, dim=-1), torch.log_softmax(other, dim=-1)
    return float((first.exp() * (first - second)).sum(-1).mean())


def trained(model: Any, seed: int) -> Any:
    """The model with a new adapter that changes what it says."""
    torch.manual_seed(seed)
    return stirred(new_adapter(model, LORA), 0.1)


def test_adapters_of_earlier_stages_stay_and_the_export_is_what_was_trained(base: Path, tmp_path: Path) -> None:
    first = trained(load_model(base, dtype="nf4"), 1)
    assert is_four_bit(first) and {w.dtype for w in first.parameters() if w.requires_grad} == {torch.float32}
    save_adapter(first, tmp_path / "first")
    after_first = logits(first)
    with using(first, None):
        before = logits(first)
    changed = divergence(after_first, before)

    second = trained(load_model(base, [tmp_path / "first"], "nf4"), 2)
    with using(second, None):
        assert divergence(after_first, logits(second)) < 0.01 * changed
    expected = logits(second)
    assert divergence(expected, after_first) > 0.1 * changed
    plain: Any = dequantised(second, base)
    assert {weight.dtype for weight in plain.parameters()} == {torch.bfloat16} and not is_four_bit(plain)
    assert divergence(expected, logits(plain)) < 0.01 * changed


def test_gradients_flow_to_the_new_adapter_only(base: Path, tmp_path: Path) -> None:
    save_adapter(trained(load_model(base, dtype="nf4"), 1), tmp_path / "first")
    model = trained(load_model(base, [tmp_path / "first"], "nf4"), 2)
    model(input_ids=TOKENS).logits.float().logsumexp(-1).sum().backward()
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    assert len(learned) == 2 * 7 * 2 and all(float(weight.grad.abs().sum()) > 0 for weight in learned)


def test_what_is_trained_is_kept_in_float32_exactly(base: Path) -> None:
    model = trained(load_model(base, dtype="nf4"), 1)
    before = trained_weights(model)
    values = [weight.clone() for weight in before.values()]
    for weight in before:
        weight.data = weight.data.to(torch.bfloat16)  # as TRL's trainers do
    keep_precision(model, before)
    assert all(weight.dtype is torch.float32 for weight in before)
    assert all(torch.equal(weight, value) for weight, value in zip(before, values, strict=True))
    assert trained_weights(new_adapter(load_model(base), LORA)) == {}


def test_it_passes_the_trial(base: Path) -> None:
    assert len(check_folder(base, "nf4")) == 6
