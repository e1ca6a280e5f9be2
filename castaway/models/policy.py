"""Loads base models and tokenizers; adds, loads, merges and saves LoRA adapters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from castaway.config.sections import LoraParams

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
"""The linear layers that get adapters."""


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a model folder, with padding on the left, as generation needs it."""
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, padding_side="left")
    return tokenizer


def load_model(base: Path, adapters: Sequence[Path] = (), dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """The base model with the adapters merged into its weights, in their order."""
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    for adapter in adapters:
        model = PeftModel.from_pretrained(model, adapter).merge_and_unload()
    model.eval()
    result: PreTrainedModel = model
    return result


def lora_config(params: LoraParams, task_type: str = "CAUSAL_LM") -> LoraConfig:
    """A rank-stabilised LoRA (Kalajdzievski 2023, arXiv 2312.03732) on every linear layer of the blocks.

    There is no dropout: it would make the trainer's probabilities differ from the sampler's.
    """
    return LoraConfig(
        r=params.rank,
        lora_alpha=params.alpha,
        use_rslora=True,
        lora_dropout=0.0,
        target_modules=TARGETS,
        task_type=task_type,
    )


def new_adapter(model: PreTrainedModel, params: LoraParams) -> PeftModel:
    """A new adapter on a frozen model. It starts at zero, so that it changes nothing until it is trained."""
    adapted: PeftModel = get_peft_model(model, lora_config(params))
    return adapted


def load_adapter(model: PreTrainedModel, folder: Path, trainable: bool) -> PeftModel:
    """A model with an adapter from disk, for further training or for inference only."""
    return PeftModel.from_pretrained(model, folder, is_trainable=trainable)


def save_adapter(model: PeftModel, folder: Path) -> None:
    """Write an adapter, in equal bytes on every machine: without the path of the base model."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = ""
    model.save_pretrained(str(folder))
    (folder / "README.md").unlink(missing_ok=True)
    # PEFT writes sets as lists, in an order that differs between processes.
    path = folder / "adapter_config.json"
    config = {
        key: sorted(value) if isinstance(value, list) else value for key, value in json.loads(path.read_text()).items()
    }
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
