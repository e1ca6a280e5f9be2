"""What is refused before anything is trained on it, and what is not."""

from pathlib import Path

import pytest
import torch

from castaway.config.errors import CastawayError
from castaway.models.trial import check_merge, check_model
from tests.castaway.models.classes import model_of


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["llama", "gemma2", "mixtral", "gpt2", "lfm2"])
def test_a_model_that_is_read_as_transformers_reads_it_passes(name: str, dtype: torch.dtype) -> None:
    assert check_model(model_of(name).to(dtype), name) < (1e-5 if dtype is torch.float32 else 0.05)


def test_a_model_that_does_not_keep_to_the_mask_of_a_tree_is_refused() -> None:
    model = model_of("llama")
    decoder = model.get_decoder()
    decoder.register_forward_pre_hook(
        lambda _, args, named: (args, {**named, "attention_mask": None}), with_kwargs=True
    )
    with pytest.raises(
        CastawayError, match=r"^mine \(LlamaForCausalLM\) reads rows that are trained together otherwise"
    ):
        check_model(model, "mine")


def test_a_class_that_takes_no_adapter_is_refused_in_one_sentence() -> None:
    with pytest.raises(CastawayError, match=r"^mine \(Mamba2ForCausalLM\) cannot be trained: .*; name another model"):
        check_model(model_of("mamba2", n_groups=1, num_heads=8, head_dim=16, state_size=16), "mine")


def test_a_model_without_gradients_is_refused() -> None:
    model = model_of("llama")
    torch.nn.init.constant_(model.lm_head.weight, 0.0)
    with pytest.raises(CastawayError, match="gets a finite gradient"):
        check_model(model, "mine")


def test_the_model_and_the_random_numbers_are_as_before() -> None:
    model, state = model_of("llama"), torch.get_rng_state()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    check_model(model, "mine")
    assert torch.equal(torch.get_rng_state(), state)
    assert list(before) == list(model.state_dict())
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize("name", ["llama", "mixtral", "gpt2"])
def test_a_model_with_an_adapter_merged_is_the_same(name: str) -> None:
    assert check_merge(model_of(name), Path(), "float32", name) < 1e-5


def test_a_model_that_does_more_than_multiply_by_its_weights_is_refused() -> None:
    model = model_of("llama")
    model.get_decoder().layers[0].mlp.down_proj.register_forward_hook(lambda *given: 3 * given[-1])
    with pytest.raises(
        CastawayError,
        match=r"^mine \(LlamaForCausalLM\) computes something else with an adapter merged into it: .* nats",
    ):
        check_merge(model, Path(), "float32", "mine")
