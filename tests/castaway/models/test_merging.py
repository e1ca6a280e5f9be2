"""Adapters are merged into models of classes that transformers computes in ways of their own."""

from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, GenerationConfig

from castaway.config.sections import LoraParams
from castaway.models.merging import merge
from castaway.models.policy import new_adapter, save_adapter
from castaway.models.tokens import ChatTokenizer
from tests.castaway.models.classes import model_of
from tests.families import FAMILIES, tokenizer_of
from tests.shipped import PARAMS
from tests.test_families import texts


@pytest.mark.parametrize("name", ["llama", "mixtral", "gpt_oss"])
def test_the_comparison_is_in_float64_for_experts_too(name: str, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(FAMILIES["qwen2"], texts())
    ids = {f"{kind}_token_id": getattr(tokenizer, f"{kind}_token_id") for kind in ("pad", "eos")}
    model = model_of(name, vocab_size=len(tokenizer), bos_token_id=None, **ids)
    base, adapter, merged = (tmp_path / part for part in ("base", "adapter", "merged"))
    model.save_pretrained(base)
    tokenizer.save_pretrained(base)
    save_adapter(new_adapter(model, LoraParams(rank=2, alpha=2)), adapter)
    prompts = [[{"role": "user", "content": "good day"}]]
    assert merge(base, [adapter], merged, prompts, "float32", PARAMS.merge)["divergence"] < 1e-6
    # What is only for the comparison is not saved.
    kept = (AutoModelForCausalLM.from_pretrained(folder).config._experts_implementation for folder in (base, merged))
    assert len(set(kept)) == 1


def test_plain_transformers_stops_where_training_did(tmp_path: Path) -> None:
    """Many instruct models name the end of a text as their stop token, and another one ends a reply."""
    tokenizer = tokenizer_of(FAMILIES["qwen2"], texts())
    ends = tokenizer.eos_token_id
    tokenizer.eos_token = tokenizer.pad_token
    model = model_of("llama", vocab_size=len(tokenizer), bos_token_id=None, eos_token_id=tokenizer.eos_token_id)
    base, adapter, merged = (tmp_path / part for part in ("base", "adapter", "merged"))
    model.save_pretrained(base)
    tokenizer.save_pretrained(base)
    save_adapter(new_adapter(model, LoraParams(rank=2, alpha=2)), adapter)
    merge(base, [adapter], merged, [[{"role": "user", "content": "good day"}]], "float32", PARAMS.merge)
    assert ends in ChatTokenizer.load(base).stops
    assert set(GenerationConfig.from_pretrained(merged).eos_token_id) == {ends, tokenizer.eos_token_id}
