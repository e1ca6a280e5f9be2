"""Rotary position embeddings are those of transformers, to the bit, and so are their gradients."""

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama import modeling_llama
from transformers.models.mistral.modeling_mistral import apply_rotary_pos_emb  # nobody has replaced this copy

from castaway.models.rotary import rotate, use_in_llama


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tokens", [1, 7, 300])
def test_every_bit_is_that_of_transformers(dtype: torch.dtype, tokens: int) -> None:
    torch.manual_seed(tokens)
    model = modeling_llama.LlamaRotaryEmbedding(LlamaConfig(hidden_size=128, num_attention_heads=4))
    places = torch.randint(0, 2_000, (3, tokens))
    given = [torch.randn(3, tokens, 4, 32, dtype=dtype).transpose(1, 2).requires_grad_() for _ in "qk"]
    wanted = [torch.randn_like(one) for one in given]
    found = []
    for function in (apply_rotary_pos_emb, rotate):
        turned = function(*given, *model(given[0], places))
        found.append([*turned, *torch.autograd.grad(turned, given, wanted)])
    for theirs, ours in zip(*found, strict=True):
        assert torch.equal(theirs, ours) and ours.dtype == dtype


def test_a_llama_computes_by_it() -> None:
    use_in_llama()
    assert modeling_llama.apply_rotary_pos_emb is rotate
