"""The tiny base model: a Llama of about a million parameters with its own tokenizer and chat template.

It replaces an instruct model where there is no GPU or network: same code, same files, a tiny fraction of the size.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from castaway.config.sections import BaseParams

PAD, END = "<|pad|>", "<|end|>"
SPECIAL_TOKENS = [PAD, END, "<|system|>", "<|user|>", "<|assistant|>"]
CONTEXT = 512
"""Maximum number of tokens of the tiny model."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|' + message['role'] + '|>' -}}"
    "{%- if message['role'] == 'assistant' -%}"
    "{%- generation -%}{{- message['content'] + '<|end|>' -}}{%- endgeneration -%}"
    "{%- else -%}{{- message['content'] + '<|end|>' -}}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
"""Every message ends with the stop token. It is inside the `generation` block, so the loss on replies includes it."""


def train_tokenizer(texts: Iterable[str], vocabulary: int, words: Iterable[str] = ()) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer on words with their leading space; it encodes and decodes any Unicode text.

    Args:
        texts: to learn the merges from.
        vocabulary: size of the learned vocabulary, including bytes and special tokens.
        words: words that are one token each, with a leading space, however rare they are; in addition to `vocabulary`.
    """
    tokenizer = Tokenizer(models.BPE())
    pieces = pre_tokenizers.Split(Regex(r"\n| ?[^\s]+|\s"), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pieces, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if words:
        tokenizer.model = _with_whole_words(tokenizer, byte_level, words)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def _with_whole_words(tokenizer: Tokenizer, byte_level: pre_tokenizers.ByteLevel, words: Iterable[str]) -> models.BPE:
    """The tokenizer's BPE model with `words` added; it looks up a whole word before it merges, as Llama 3's does."""
    learned = json.loads(tokenizer.to_str())["model"]
    vocabulary = dict(learned["vocab"])
    for word in words:
        ((piece, _),) = byte_level.pre_tokenize_str(f" {word}")
        vocabulary.setdefault(piece, len(vocabulary))
    return models.BPE(vocabulary, [tuple(merge) for merge in learned["merges"]], ignore_merges=True)


def new_model(params: BaseParams, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """An untrained model of the size given by the parameters, initialised from torch's global generator."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=params.hidden_size,
        intermediate_size=3 * params.hidden_size,
        num_hidden_layers=params.layers,
        num_attention_heads=params.heads,
        num_key_value_heads=params.heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        # The usual 0.02 is for widths of thousands; at this width, the first minutes of training would learn nothing.
        initializer_range=params.hidden_size**-0.5,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config)
