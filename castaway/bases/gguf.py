"""Converts a GGUF file, the format of llama.cpp, into a model and a tokenizer of transformers.

transformers reads and dequantises the weights. Three more things are done here: the stop tokens are collected, the
tokenizer splits text as the file says, and a file of which transformers would silently leave something out is refused.
"""

from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig, PreTrainedTokenizerFast
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from castaway.config.errors import CastawayError, first_line

SPLITS = {
    # As in the tokenizer.json of HuggingFaceTB/SmolLM2-135M-Instruct. Without it, a digit after two or more blanks is
    # split otherwise than in training.
    "smollm": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    ),
}
"""Rules to split text before merging, by their name in the file, which transformers does not know."""
KNOWN_SPLITS = {"gpt-2", *SPLITS, *GGUF_PRE_TOKENIZER_SPLITS}
"""The names of all rules that are applied rightly. For any other name, transformers takes GPT-2's without a word."""
STOPS = ("eos", "eot", "eom")  # the ends of a text, a turn and a message: each stops a reply


def load_gguf(file: Path, name: str) -> tuple[Any, Any]:
    """The model in a GGUF file that is alone in its folder, in bfloat16, and its tokenizer; errors call it `name`."""
    try:
        reader = GGUFReader(file)
        model: Any = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
        )
        read: Any = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    except Exception as error:  # of a broken file, the readers raise whatever they stumble upon
        raise CastawayError(
            f"{name} is no GGUF file, a cut one, or of a kind that transformers does not read: {first_line(error)}"
        ) from error
    split, otherwise = _field(reader, "pre"), "name the model by `hub`, or by the `path` of its transformers files"
    if _field(reader, "model") == "gpt2" and split not in KNOWN_SPLITS:
        raise CastawayError(f"{name} splits text by the rule {split!r}, which transformers lacks; {otherwise}")
    stored, taken = sum(int(tensor.n_elements) for tensor in reader.tensors), model.num_parameters()
    if stored != taken:
        raise CastawayError(f"{name} holds {stored:,} weights, of which transformers reads {taken:,}; {otherwise}")
    tokenizer = _tokenizer(read, split, model.config.max_position_embeddings)
    stops = sorted({_field(reader, f"{kind}_token_id") for kind in STOPS} - {None})
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=stops[0] if len(stops) == 1 else stops or None,
        pad_token_id=tokenizer.pad_token_id,
    )
    return model, tokenizer


def _tokenizer(read: Any, split: str | None, context: int) -> PreTrainedTokenizerFast:
    """The parts of a tokenizer whose class may build itself anew when it is loaded, with a split of its own."""
    backend = read.backend_tokenizer
    if split in SPLITS:
        backend.pre_tokenizer = SPLITS[split]
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=read.bos_token,
        eos_token=read.eos_token,
        unk_token=read.unk_token,
        pad_token=read.pad_token,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
        chat_template=read.chat_template,
    )


def _field(reader: GGUFReader, key: str) -> Any:
    field = reader.get_field(f"tokenizer.ggml.{key}")
    return field.contents() if field else None
