"""Models on disk and in memory: load a base, put adapters on it, merge them away."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from castaway.config.params import LoraParams

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
"""The linear layers that adapters are put on."""


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a model folder, padding on the left, as decoders need it."""
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, padding_side="left")
    return tokenizer


def load_model(base: Path, adapters: Sequence[Path] = (), dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """The base model with all of these adapters merged into its weights, in their order."""
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    for adapter in adapters:
        model = PeftModel.from_pretrained(model, adapter).merge_and_unload()
    model.eval()
    result: PreTrainedModel = model
    return result


def lora_config(params: LoraParams, task_type: str = "CAUSAL_LM") -> LoraConfig:
    """A rank-stabilised LoRA on every linear layer of the blocks, without dropout.

    Dropout would make the sampler's and the trainer's probabilities differ.
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
    """A fresh adapter on a frozen model; it changes nothing until it is trained."""
    adapted: PeftModel = get_peft_model(model, lora_config(params))
    return adapted


def load_adapter(model: PreTrainedModel, folder: Path, trainable: bool) -> PeftModel:
    """An adapter from disk on a model, for further training or for use."""
    return PeftModel.from_pretrained(model, folder, is_trainable=trainable)


def save_adapter(model: PeftModel, folder: Path) -> None:
    """Write an adapter without the base's path in it, which would differ from machine to machine."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = ""
    model.save_pretrained(str(folder))
    (folder / "README.md").unlink(missing_ok=True)
    # PEFT writes sets, whose order differs from run to run.
    path = folder / "adapter_config.json"
    config = {
        key: sorted(value) if isinstance(value, list) else value for key, value in json.loads(path.read_text()).items()
    }
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
