"""The loss of SFT is the one of the rows one by one, in trees and padded, however many logits are held at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForCausalLM

from castaway.models.folded import folded
from castaway.models.label_losses import label_losses
from castaway.models.training import LabelledRow, ReplyCollator
from tests.castaway.rl.small import stirred

FAMILIES = ("llama", "qwen2", "gemma", "granite")


def policy(family: str) -> Any:
    """A small model with an adapter that is not zero."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 40}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    causal = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes, **heads, **tokens))
    return stirred(get_peft_model(causal, LoraConfig(r=4, target_modules="all-linear")))


def rows(shared: int) -> list[LabelledRow]:
    """Rows that begin with the same tokens, with replies of different length."""
    torch.manual_seed(1)
    same = torch.randint(3, 40, (shared,)).tolist()
    made = []
    for asked, replied in ((4, 3), (2, 7), (5, 1)):
        own, reply = torch.randint(3, 40, (asked,)).tolist(), torch.randint(3, 40, (replied,)).tolist()
        labels = [-100] * (len(same) + asked) + reply
        made.append(LabelledRow(input_ids=[*same, *own, *reply], labels=labels))
    return made


@pytest.mark.parametrize(("shared", "trees"), [(30, True), (0, False)])
@pytest.mark.parametrize("chunk", [2**25, 40 * 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_losses_and_gradients_are_those_of_the_rows_one_by_one(
    family: str, chunk: int, shared: int, trees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("castaway.models.hidden_states.CHUNK", chunk)
    model = policy(family)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    inputs = ReplyCollator(model, 0)(rows(shared))
    assert ("position_ids" in inputs) is trees
    with folded(model):
        losses, right = label_losses(model.get_base_model(), inputs)
    losses.sum().backward()
    found = [weight.grad.clone() for weight in trained]
    assert len(losses) == 11 and right.dtype is torch.bool

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
