"""Adapters are merged into models of classes that transformers computes in ways of their own."""

from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from castaway.config.sections import LoraParams
from castaway.models.merging import merge
from castaway.models.policy import new_adapter, save_adapter
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
