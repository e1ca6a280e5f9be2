"""Hidden states at a few places, their logits, and what is computed from these, are those of the whole rows."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from castaway.models import logprobs
from castaway.models.folded import folded
from castaway.models.logprobs import KNOWN_BLOCKS, hidden_states_at, label_losses, next_token_logits, token_scores
from castaway.models.products import use_for_head
from castaway.models.training import LabelledRow, ReplyCollator
from tests.castaway.rl.small import stirred

PLACES = torch.tensor([[2, 3, 6], [0, 5, 5]])
LINES = torch.arange(2)[:, None]
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "granite", "gemma2", "olmo2")


def config(family: str, hidden_size: int = 16, **more: Any) -> Any:
    """The configuration of a small model with a vocabulary of 40, after setting the seed of its weights."""
    torch.manual_seed(0)
    sizes = {"hidden_size": hidden_size, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 40}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return AutoConfig.for_model(family, **sizes, **heads, **tokens, **more)


def decoder(family: str) -> Any:
    """A small random decoder whose residuals are scaled where the family can do that."""
    return AutoModel.from_config(config(family, **({"residual_multiplier": 0.3} if family == "granite" else {})))


@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_gradients_are_those_of_the_whole_row(family: str) -> None:
    model = decoder(family)
    tokens = torch.randint(3, 40, (2, 8))
    found = []
    for states in (
        model(input_ids=tokens).last_hidden_state[LINES, PLACES],
        hidden_states_at(model, LINES, PLACES, input_ids=tokens),
    ):
        model.zero_grad()
        (states * torch.linspace(-1, 1, 16)).square().sum().backward()
        found.append([states.detach(), *(weight.grad.clone() for weight in model.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    known = type(model.layers[-1]).__name__ in KNOWN_BLOCKS
    assert known == (family in ("llama", "mistral", "qwen2", "qwen3"))


@pytest.mark.parametrize(
    ("family", "scaled"),
    [
        ("llama", {}),
        ("granite", {"logits_scaling": 3.0}),
        ("cohere", {"logit_scale": 0.5}),
        ("gemma2", {"final_logit_softcapping": 0.1}),
        ("phi3", {}),
    ],
)
def test_logits_are_those_of_the_model_whatever_it_scales(family: str, scaled: dict[str, float]) -> None:
    model: Any = AutoModelForCausalLM.from_config(config(family, **scaled))
    asked = torch.randint(3, 40, (2, 8))
    hidden = model.get_decoder()(input_ids=asked).last_hidden_state
    expected = model.eval()(input_ids=asked).logits
    torch.testing.assert_close(next_token_logits(model, hidden), expected)
    if scaled:
        assert not torch.allclose(model.lm_head(hidden), expected, atol=1e-4)
    torch.testing.assert_close(model(input_ids=asked).logits, expected)


@pytest.mark.parametrize("tied", [True, False])
def test_logits_of_a_model_in_bfloat16_are_rounded_nowhere_but_in_its_hidden_states(
    tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("castaway.models.products.FLOAT32_ELEMENTS", 100)  # several blocks of the weight
    model: Any = AutoModelForCausalLM.from_config(config("llama", tie_word_embeddings=tied)).to(torch.bfloat16)
    use_for_head(model)
    model.requires_grad_(False)
    hidden = 30 * torch.randn(3, 5, model.config.hidden_size, dtype=torch.bfloat16)
    hidden.requires_grad_()
    exact = hidden.detach().float().requires_grad_()
    expected = exact @ model.lm_head.weight.float().T
    logits, rounded = next_token_logits(model, hidden), model.lm_head(hidden)
    assert logits.dtype is torch.float32 and rounded.dtype is torch.bfloat16
    torch.testing.assert_close(logits, expected)
    assert (rounded - expected).abs().max() > 100 * (logits - expected).abs().max()
    weights = torch.randn_like(expected)
    (logits * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(hidden.grad.float(), exact.grad, rtol=1e-2, atol=1e-2)


def rows(shared: int) -> list[LabelledRow]:
    """Rows that begin with the same tokens, with replies of different length."""
    torch.manual_seed(1)
    same = torch.randint(3, 40, (shared,)).tolist()
    made = []
    for asked, replied in ((4, 3), (2, 7), (5, 1)):
        own, reply = torch.randint(3, 40, (asked,)).tolist(), torch.randint(3, 40, (replied,)).tolist()
        made.append(LabelledRow(input_ids=[*same, *own, *reply], labels=[-100] * (len(same) + asked) + reply))
    return made


@pytest.mark.parametrize(("shared", "trees"), [(30, True), (0, False)])
@pytest.mark.parametrize("chunk", [2**25, 40 * 4])
@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma", "granite"])
def test_losses_of_labels_and_gradients_are_those_of_the_rows_one_by_one(
    family: str, chunk: int, shared: int, trees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("castaway.models.logprobs.CHUNK", chunk)
    causal = AutoModelForCausalLM.from_config(config(family, 256))
    model: Any = stirred(get_peft_model(causal, LoraConfig(r=4, target_modules="all-linear")))
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    inputs = ReplyCollator(model, 0)(rows(shared))
    assert ("position_ids" in inputs) is trees
    with folded(model):
        losses, right, balance = label_losses(model.get_base_model(), inputs)
    losses.sum().backward()
    found = [weight.grad.clone() for weight in trained]
    assert len(losses) == 11 and right.dtype is torch.bool and balance == 0

    model.zero_grad()
    total, hits = torch.zeros(()), 0
    for row in rows(shared):
        logits = model(input_ids=torch.tensor([row["input_ids"]])).logits[0, :-1].float()
        labels = torch.tensor(row["labels"][1:])
        total = total + cross_entropy(logits, labels, ignore_index=-100, reduction="sum")
        hits += int((logits.argmax(-1) == labels).sum())
    total.backward()
    torch.testing.assert_close(losses.sum(), total, rtol=1e-5, atol=1e-5)
    assert int(right.sum()) == hits
    for one, weight in zip(found, trained, strict=True):
        # By their norms: a small element of a large gradient is rounded by more than its own size would let expect.
        assert (one - weight.grad).norm() < 2e-4 * weight.grad.norm()


@given(
    seed=st.integers(0, 2**16),
    rows=st.integers(1, 9),
    vocabulary=st.integers(2, 40),
    temperature=st.sampled_from([1.0, 0.7, 2.0]),
    block=st.integers(1, 200),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_token_scores_are_those_of_the_plain_formula(
    seed: int, rows: int, vocabulary: int, temperature: float, block: int, dtype: torch.dtype
) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits = (3 * torch.randn(rows, vocabulary, generator=draw)).to(dtype).requires_grad_()
    tokens = torch.randint(vocabulary, (rows,), generator=draw)
    weights = torch.randn(rows, generator=draw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logprobs, "BLOCK_ON_CPU", block)
        log_p, entropies = token_scores(logits, tokens, temperature)
        (found,) = torch.autograd.grad((log_p * weights).sum(), logits)
    log_all = torch.log_softmax(logits.float() / temperature, dim=-1)
    plain = log_all.gather(-1, tokens[:, None])[:, 0]
    (expected,) = torch.autograd.grad((plain * weights).sum(), logits)
    torch.testing.assert_close(log_p, plain)
    torch.testing.assert_close(entropies, -(log_all.exp() * log_all).sum(-1).detach())
    assert found.dtype is dtype
    torch.testing.assert_close(found, expected)
