"""Hidden states at a few places are those of the whole row."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from castaway.models.hidden_states import KNOWN_BLOCKS, hidden_states_at, next_token_logits
from castaway.models.tokens import pad_left, positions

PLACES = torch.tensor([[2, 3, 6], [0, 5, 5]])
LINES = torch.arange(2)[:, None]
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "granite", "gemma2", "olmo2")


def decoder(family: str) -> Any:
    """A small random decoder whose residuals are scaled where the family can do that."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "vocab_size": 40, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    scaled = {"residual_multiplier": 0.3} if family == "granite" else {}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return AutoModel.from_config(AutoConfig.for_model(family, **sizes, **heads, **scaled, **tokens))


@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_gradients_are_those_of_the_whole_row(family: str) -> None:
    model = decoder(family)
    tokens = torch.randint(3, 40, (2, 8))
    found = []
    for states in (
        model(input_ids=tokens).last_hidden_state[torch.arange(2)[:, None], PLACES],
        hidden_states_at(model, LINES, PLACES, input_ids=tokens),
    ):
        model.zero_grad()
        (states * torch.linspace(-1, 1, 16)).square().sum().backward()
        found.append([states.detach(), *(weight.grad.clone() for weight in model.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_padding_on_the_left_stays_unseen() -> None:
    model = decoder("llama").eval()
    tokens, mask = pad_left([[5, 6, 7], [8, 9, 10, 11, 12]], 0)
    states = hidden_states_at(
        model, LINES, torch.tensor([[4], [4]]), input_ids=tokens, attention_mask=mask, position_ids=positions(mask)
    )
    alone = model(input_ids=torch.tensor([[5, 6, 7]])).last_hidden_state[0, -1]
    torch.testing.assert_close(states[0, 0], alone, rtol=1e-5, atol=1e-6)


def test_the_model_is_as_before_afterwards() -> None:
    model = decoder("llama")
    tokens = torch.randint(3, 40, (2, 8))
    whole = model(input_ids=tokens).last_hidden_state
    with pytest.raises(IndexError):
        hidden_states_at(model, LINES, PLACES + 100, input_ids=tokens)
    assert torch.equal(model(input_ids=tokens).last_hidden_state, whole)


def test_only_blocks_that_are_known_are_shortened() -> None:
    shortened = {family for family in FAMILIES if type(decoder(family).layers[-1]).__name__ in KNOWN_BLOCKS}
    assert shortened == {"llama", "mistral", "qwen2", "qwen3"}


@pytest.mark.parametrize("family", ["llama", "granite", "cohere", "gemma2", "phi3"])
def test_logits_are_those_of_the_model_whatever_it_scales(family: str) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 40}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}
    scaled = {
        "granite": {"logits_scaling": 3.0},
        "cohere": {"logit_scale": 0.5},
        "gemma2": {"final_logit_softcapping": 0.1},
    }.get(family, {})
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    model: Any = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes, **heads, **scaled, **tokens))
    asked = torch.randint(3, 40, (2, 8))
    hidden = model.get_decoder()(input_ids=asked).last_hidden_state
    expected = model.eval()(input_ids=asked).logits
    torch.testing.assert_close(next_token_logits(model, hidden), expected)
    if scaled:
        assert not torch.allclose(model.lm_head(hidden), expected, atol=1e-4)
    torch.testing.assert_close(model(input_ids=asked).logits, expected)
