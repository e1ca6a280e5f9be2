"""Log-probabilities from logits in low precision: numbers by hand, and what autograd makes of the plain formula."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from castaway.models import token_scores as module
from castaway.models.token_scores import token_scores


def test_numbers_by_hand() -> None:
    logits = torch.tensor([[0.0, math.log(3.0)]], dtype=torch.float64).float()
    logprobs, entropies = token_scores(logits, torch.tensor([1]))
    assert logprobs.item() == pytest.approx(math.log(0.75))
    assert entropies.item() == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))
    # Divided by 1/2, the odds are squared: 1 to 9.
    logprobs, _ = token_scores(logits, torch.tensor([1]), temperature=0.5)
    assert logprobs.item() == pytest.approx(math.log(0.9))


def test_the_gradient_by_hand() -> None:
    logits = torch.tensor([[0.0, math.log(3.0)]]).requires_grad_()
    logprobs, entropies = token_scores(logits, torch.tensor([1]))
    assert not entropies.requires_grad
    (2 * logprobs.sum()).backward()
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.tensor([[-0.5, 0.5]]))


@given(
    seed=st.integers(0, 2**16),
    rows=st.integers(1, 9),
    vocabulary=st.integers(2, 40),
    temperature=st.sampled_from([1.0, 0.7, 2.0]),
    block=st.integers(1, 200),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_they_are_those_of_the_plain_formula(
    seed: int, rows: int, vocabulary: int, temperature: float, block: int, dtype: torch.dtype
) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits = (3 * torch.randn(rows, vocabulary, generator=draw)).to(dtype).requires_grad_()
    tokens = torch.randint(vocabulary, (rows,), generator=draw)
    weights = torch.randn(rows, generator=draw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_ON_CPU", block)
        logprobs, entropies = token_scores(logits, tokens, temperature)
        (found,) = torch.autograd.grad((logprobs * weights).sum(), logits)
    log_all = torch.log_softmax(logits.float() / temperature, dim=-1)
    plain = log_all.gather(-1, tokens[:, None])[:, 0]
    (expected,) = torch.autograd.grad((plain * weights).sum(), logits)
    torch.testing.assert_close(logprobs, plain)
    torch.testing.assert_close(entropies, -(log_all.exp() * log_all).sum(-1).detach())
    assert found.dtype is dtype
    torch.testing.assert_close(found, expected)
