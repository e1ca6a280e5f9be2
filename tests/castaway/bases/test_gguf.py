"""A GGUF file becomes a model and a tokenizer of transformers that need the file no more."""

from pathlib import Path

import numpy
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from castaway.bases.gguf import load_gguf
from castaway.bases.sources import save
from tests.castaway.bases.given import SPECIAL, Original, write_gguf
from tests.castaway.command import refused


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Original, Path]:
    """What the file was made from, and the folder that was made from the file, which is gone."""
    file, folder = tmp_path_factory.mktemp("file") / "model.gguf", tmp_path_factory.mktemp("folder")
    original = write_gguf(file)
    save(*load_gguf(file, "tiny"), folder)
    file.unlink()
    return original, folder


def test_the_weights_are_those_of_the_file_rounded_to_bfloat16(converted: tuple[Original, Path]) -> None:
    original, folder = converted
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert model.dtype == torch.bfloat16 and type(model) is type(original.model)
    assert not hasattr(model.config, "quantization_config")
    wanted = {name: weight.to(torch.bfloat16) for name, weight in original.model.state_dict().items()}
    found = model.state_dict()
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    tokens = torch.arange(40)[None]
    rounded = original.model.to(torch.bfloat16).float()
    with torch.no_grad():
        assert torch.allclose(model.float()(tokens).logits, rounded(tokens).logits, atol=1e-5)


def test_the_template_and_the_stop_tokens_come_along(converted: tuple[Original, Path]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(converted[1])
    messages = [{"role": "user", "content": "a 1"}]
    asked = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert asked == "<|im_start|>user\na 1<|im_end|>\n<|im_start|>assistant\n"
    tokens = tokenizer(asked, add_special_tokens=False)["input_ids"]
    assert tokens == tokenizer(asked)["input_ids"], "no token is added in front"
    assert [token for token in tokens if token < len(SPECIAL)] == [1, 2, 1]
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (SPECIAL[1], SPECIAL[2], SPECIAL[2])
    assert tokenizer.model_max_length == 256
    generation = GenerationConfig.from_pretrained(converted[1])
    assert (generation.bos_token_id, generation.eos_token_id, generation.pad_token_id) == (1, 2, 2)


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
@example("a  1")
@example("\n\n4")
@example("12 345")
@example("  67\t 8\n 9x10")
@settings(max_examples=150)
def test_text_is_split_as_in_training(converted: tuple[Original, Path], text: str) -> None:
    original, folder = converted
    tokenizer = TOKENIZERS.setdefault(folder, AutoTokenizer.from_pretrained(folder))
    tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokens == original.tokenizer.encode(text).ids
    assert tokenizer.decode(tokens) == text


TOKENIZERS: dict[Path, object] = {}


def test_quantised_weights_are_dequantised(tmp_path: Path) -> None:
    original = write_gguf(tmp_path / "model.gguf", quantised=True)
    model, _ = load_gguf(tmp_path / "model.gguf", "tiny")
    before = original.model.model.layers[1].mlp.down_proj.weight.detach().numpy()
    wanted = dequantize(quantize(before, GGMLQuantizationType.Q8_0), GGMLQuantizationType.Q8_0)
    found = model.model.layers[1].mlp.down_proj.weight
    assert torch.equal(found, torch.from_numpy(wanted).to(torch.bfloat16))


def test_what_would_be_read_wrongly_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    write_gguf(file, pre="another")
    told = refused(load_gguf, file, "the file")
    assert told.startswith("the file splits text by the rule 'another', which transformers lacks; name")
    # Llama 3.1 keeps its scaled positions so; transformers reads them from config.json only.
    write_gguf(file, tensors={"rope_freqs.weight": numpy.ones(8, numpy.float32)})
    assert "weights, of which transformers reads" in refused(load_gguf, file, "the file")


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    write_gguf(file)
    file.write_bytes(file.read_bytes()[:-1000])
    told = refused(load_gguf, file, "the file")
    assert told.startswith("the file is no GGUF file, a cut one, or of a kind that transformers does not read: ")
