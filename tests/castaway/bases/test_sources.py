"""Whatever names a model that exists already, the same kind of folder comes out, or one sentence says what is wrong."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from castaway.bases.sources import Given, fetch, save
from castaway.config.bases import HubParams, PathParams
from castaway.tools.check_model import check_folder
from tests.castaway.bases.given import write_gguf
from tests.castaway.command import refused
from tests.miniature import GIVEN

placed, hosted = partial(PathParams, **GIVEN), partial(HubParams, **GIVEN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as it lies on the Hub: float32, a chat template, several stop tokens, a system prompt of its own."""
    root = tmp_path_factory.mktemp("hub")
    write_gguf(root / "model.gguf", eot=0)
    model, tokenizer = fetch(placed(path="model.gguf"), root, root / "scratch", root)
    model.to(torch.float32).generation_config.update(temperature=0.6, do_sample=True)
    save(model, tokenizer, root / "chat")
    return root / "chat"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_is_copied_in_bfloat16_with_its_template_and_stop_tokens(folder: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        save(*fetch(placed(path=folder.name), folder.parent, tmp_path / "scratch", tmp_path), tmp_path / name)
    assert content(tmp_path / "one") == content(tmp_path / "other")
    before, after = (AutoModelForCausalLM.from_pretrained(one, dtype="auto") for one in (folder, tmp_path / "one"))
    assert (before.dtype, after.dtype) == (torch.float32, torch.bfloat16)
    weights = after.state_dict()
    assert all(torch.equal(weights[name], weight.bfloat16()) for name, weight in before.state_dict().items())
    generation = GenerationConfig.from_pretrained(tmp_path / "one")
    assert (generation.eos_token_id, generation.temperature, generation.do_sample) == ([0, 2], 0.6, True)
    for name in ("chat_template.jinja", "tokenizer.json"):
        assert (tmp_path / "one" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("path", ["models/chat.gguf", "models", "absolute"])
def test_a_gguf_file_is_found_by_its_path_or_its_folder(path: str, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    write_gguf(tmp_path / "models/chat.gguf")
    # What lies next to the file is not read.
    (tmp_path / "models/tokenizer_config.json").write_text('{"pad_token": "a"}', "utf-8")
    named = str(tmp_path / "models") if path == "absolute" else path
    _, tokenizer = fetch(placed(path=named), tmp_path, tmp_path / "scratch", tmp_path)
    assert tokenizer.pad_token == "<|im_end|>"
    assert not (tmp_path / "scratch/source").exists()


def refusal(source: Given, root: Path) -> str:
    message = refused(fetch, source, root, root / "scratch", root)
    assert not list((root / "scratch").iterdir()), "nothing is left behind"
    return message


def test_what_is_no_model_is_told(tmp_path: Path) -> None:
    assert refusal(placed(path="models"), tmp_path).startswith("models does not exist; put the model there")
    (tmp_path / "models").mkdir()
    assert refusal(placed(path="models"), tmp_path).startswith("models is no model: expected a folder")
    for name in ("a.gguf", "b.gguf"):
        write_gguf(tmp_path / "models" / name)
    assert refusal(placed(path="models"), tmp_path).startswith("models is no model: expected a folder")
    (tmp_path / "config.json").write_text("{}", "utf-8")
    assert refusal(placed(path="config.json"), tmp_path).startswith("config.json is no model: expected a folder")
    assert refusal(placed(path="."), tmp_path).startswith(". cannot be loaded: ")


def test_a_model_without_a_chat_template_or_with_half_a_file_is_refused(folder: Path, tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", template="")
    message = refusal(placed(path="model.gguf"), tmp_path)
    assert message == "model.gguf has no chat template; name a model that was trained for conversation"
    (tmp_path / "model.gguf").unlink()
    for name, data in content(folder).items():
        (tmp_path / name).write_bytes(data[: len(data) // 2] if name == "model.safetensors" else data)
    assert refusal(placed(path="."), tmp_path).startswith(". cannot be loaded: ")


def test_weights_that_are_not_in_the_files_are_not_drawn(folder: Path, tmp_path: Path) -> None:
    for name, data in content(folder).items():
        (tmp_path / name).write_bytes(data)
    weights = load_file(tmp_path / "model.safetensors")
    whole, name = dict(weights), "model.layers.1.mlp.up_proj.weight"
    del weights[name]
    save_file(weights, tmp_path / "model.safetensors")
    assert refusal(placed(path="."), tmp_path).startswith(f". lacks 1 of its weights, such as {name}; take the files")
    assert f"lacks 1 of its weights, such as {name}" in refused(check_folder, tmp_path, "float32")
    save_file({**whole, name: whole[name][:1].clone()}, tmp_path / "model.safetensors")
    assert refusal(placed(path="."), tmp_path).startswith(". cannot be loaded: ")
    save_file(whole, tmp_path / "model.safetensors")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|tool|>"]})
    tokenizer.save_pretrained(tmp_path)
    told = r"has a tokenizer with token (\d+) \(<\|tool\|>\), and embeddings of \1 tokens; resize"
    assert re.search(told, refusal(placed(path="."), tmp_path))
    assert re.search(told, refused(check_folder, tmp_path, "float32"))


@pytest.mark.parametrize(
    ("name", "changed", "told"),
    [
        ("generation_config.json", {"temperature": 0.6, "top_p": 0.9, "do_sample": False}, ""),
        ("tokenizer_config.json", {"extra_special_tokens": ["<|im_end|>"]}, ""),
        ("tokenizer_config.json", {"pad_token": "<|im_end|>"}, ""),
        ("config.json", {"use_cache": False, "dtype": "float16"}, ""),
        ("config.json", {"attn_implementation": "flash_attention_2"}, ". cannot be loaded: FlashAttention2 "),
        ("config.json", {"quantization_config": {"quant_method": "awq", "bits": 4}}, ". cannot be loaded: "),
        ("config.json", {"num_hidden_layers": 3}, r". lacks \d+ of its weights, such as model\.layers\.2\."),
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1\n", ". cannot be loaded: "),
    ],
)
def test_what_lies_beside_the_weights_is_taken_or_told(
    folder: Path, tmp_path: Path, name: str, changed: bytes | dict[str, Any], told: str
) -> None:
    for other, data in content(folder).items():
        (tmp_path / other).write_bytes(data)
    file = tmp_path / name
    file.write_bytes(
        changed if isinstance(changed, bytes) else json.dumps(json.loads(file.read_text()) | changed).encode()
    )
    if told:
        assert re.match(told, refusal(placed(path="."), tmp_path))
    else:
        save(*fetch(placed(path="."), tmp_path, tmp_path / "scratch", tmp_path), tmp_path / "out")
        assert len(check_folder(tmp_path / "out", "float32")) == 6


def test_a_model_of_the_hub_is_the_one_of_its_commit(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the local cache, laid out as the Hub's client does it."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    commit = "a" * 40
    place = tmp_path / "hub/models--castaway--chat/snapshots" / commit
    place.mkdir(parents=True)
    for name, data in content(folder).items():
        (place / name).write_bytes(data)
    model, tokenizer = fetch(hosted(hub="castaway/chat", revision=commit), tmp_path, tmp_path / "scratch", tmp_path)
    save(model, tokenizer, tmp_path / "out")
    assert model.dtype == torch.bfloat16 and model.generation_config.eos_token_id == [0, 2]
    save(*fetch(placed(path=str(folder)), tmp_path, tmp_path / "scratch", tmp_path), tmp_path / "same")
    assert content(tmp_path / "out") == content(tmp_path / "same"), "nothing tells where it was"
    assert b"local" not in content(tmp_path / "out")["tokenizer_config.json"]
    assert refusal(hosted(hub="castaway/chat", revision="b" * 40), tmp_path).startswith("castaway/chat cannot")
