"""Small random models of five families, with templates that behave as theirs, each written as a folder of transformers.

Only the sizes are invented: classes, special tokens, stop tokens and what the templates do are those of the families.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast

SIZES = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
}
CHATML = """\
{%- if messages[0]['role'] != 'system' %}
{{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"""
THINKING = """\
{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\n' }}
{%- if message['role'] == 'assistant' and loop.last %}{{ '<think>\n\n</think>\n\n' }}{%- endif %}
{{- message['content'] + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}"""
LLAMA = """\
{%- if not date_string is defined %}{%- set date_string = strftime_now('%d %b %Y %H %M %S %f') %}{%- endif %}
{{- bos_token + '<|start_header_id|>system<|end_header_id|>\n\nToday Date: ' + date_string + '\n\n' }}
{%- if messages[0]['role'] == 'system' %}{{ messages[0]['content'] }}{%- set messages = messages[1:] %}{%- endif %}
{{- '<|eot_id|>' }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"""
GEMMA = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{%- endif %}
{%- for message in messages %}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{- '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{%- endif %}"""
PHI = """\
{%- for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{%- else %}{{ eos_token }}{%- endif %}"""


class Family(NamedTuple):
    """What is particular about a family."""

    prefix: str
    """Of the names of its classes."""
    template: str
    special: tuple[str, ...]
    bos: str | None
    eos: str
    pad: str | None
    stops: tuple[str, ...]
    """The stop tokens in generation_config.json."""
    ending: str
    """The stop token that the template writes after a reply."""


QWEN2 = Family(
    "Qwen2", CHATML,
    ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    None, "<|im_end|>", "<|endoftext|>",
    ("<|im_end|>", "<|endoftext|>"),
    "<|im_end|>",
)  # fmt: skip
FAMILIES = {
    "llama": Family(
        "Llama", LLAMA,
        ("<|begin_of_text|>", "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>",
         "<|start_header_id|>", "<|end_header_id|>"),
        "<|begin_of_text|>", "<|eot_id|>", None,
        ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
        "<|eot_id|>",
    ),
    "qwen2": QWEN2,
    "qwen3": QWEN2._replace(prefix="Qwen3", template=THINKING),
    "gemma": Family(
        "Gemma", GEMMA,
        ("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"),
        "<bos>", "<eos>", "<pad>",
        ("<eos>", "<end_of_turn>"),
        "<end_of_turn>",
    ),
    "phi3": Family(
        "Phi3", PHI,
        ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
        None, "<|endoftext|>", "<|endoftext|>",
        ("<|endoftext|>", "<|end|>"),
        "<|end|>",
    ),
}  # fmt: skip


def write_family(name: str, folder: Path, texts: list[str], seed: int = 0) -> Path:
    """Write a random model of a family, with a tokenizer trained on the texts; returns the folder."""
    family = FAMILIES[name]
    tokenizer = tokenizer_of(family, texts)
    known = {"bos": family.bos, "eos": family.eos, "pad": family.pad}
    special = {f"{key}_token_id": tokenizer.convert_tokens_to_ids(token) for key, token in known.items() if token}
    torch.manual_seed(seed)
    sizes = {**SIZES, **({"head_dim": 64} if name in ("gemma", "qwen3") else {})}
    tokens = {"pad_token_id": None, "bos_token_id": None, **special}
    config = getattr(transformers, f"{family.prefix}Config")(**sizes, vocab_size=len(tokenizer), **tokens)
    model = getattr(transformers, f"{family.prefix}ForCausalLM")(config)
    stops = [tokenizer.convert_tokens_to_ids(token) for token in family.stops]
    model.generation_config = GenerationConfig(eos_token_id=stops)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tokenizer_of(family: Family, texts: list[str]) -> Any:
    """A byte-level BPE tokenizer of 600 pieces with the family's special tokens and template."""
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    special, letters = list(family.special), sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=letters, show_progress=False)
    words.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token=family.bos, eos_token=family.eos, pad_token=family.pad,
        chat_template=family.template, clean_up_tokenization_spaces=False,
    )  # fmt: skip
