"""Loads base models; adds, loads, selects and saves LoRA adapters."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import load_peft_weights
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from castaway.config.bases import Dtype
from castaway.config.errors import CastawayError, first_line
from castaway.config.sections import LoraParams
from castaway.models.four_bit import load_four_bit
from castaway.models.rotary import use_in_llama


def load_model(base: Path, adapters: Sequence[Path] = (), dtype: Dtype = "float32") -> PreTrainedModel:
    """The base model with the adapters merged into its weights, in their order; in 4 bits they stay separate."""
    use_in_llama()
    if dtype == "nf4":
        return load_four_bit(base, adapters)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=getattr(torch, dtype))
    for adapter in adapters:
        model = load_adapter(model, adapter, trainable=False).merge_and_unload()
    return model.eval()


def lora_config(params: LoraParams, task_type: str = "CAUSAL_LM") -> LoraConfig:
    """A rank-stabilised LoRA (Kalajdzievski 2023, arXiv 2312.03732) on every linear layer but the head.

    There is no dropout: it would make the trainer's probabilities differ from the sampler's. PEFT finds the layers:
    their names differ between families (Phi-3 has one layer for query, key and value).
    """
    return LoraConfig(
        r=params.rank,
        lora_alpha=params.alpha,
        use_rslora=True,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type=task_type,
    )


def new_adapter(model: PreTrainedModel, params: LoraParams) -> PeftModel:
    """A new adapter in float32 on a frozen model. It starts at zero, and changes nothing until it is trained."""
    return get_peft_model(model, lora_config(params))


def load_adapter(model: PreTrainedModel, folder: Path, trainable: bool) -> PeftModel:
    """The model with the adapter of a folder; CastawayError if it is an adapter of another model."""
    adapted = PeftModel.from_pretrained(model, folder, is_trainable=trainable)
    there, saved = get_peft_model_state_dict(adapted, save_embedding_layers=False), load_peft_weights(str(folder))
    # PEFT only warns of what is missing, and passes over what has no place.
    if wrong := {name for name in there.keys() ^ saved.keys() if ".lora_" in name}:
        raise CastawayError(f"{folder} is no adapter of {type(model).__name__} in this size: {min(wrong)} does not fit")
    return adapted


def load_policy(base: Path, adapters: Sequence[Path], dtype: Dtype) -> Any:
    """The base model with its adapters, of which the last stays apart: in bfloat16, merging would round it.

    Raises:
        CastawayError: the files cannot be read, or an adapter is another model's.
    """
    try:
        model = load_model(base, adapters[:-1], dtype)
        return load_adapter(model, adapters[-1], trainable=False).eval() if adapters else model
    except CastawayError:
        raise
    except Exception as error:  # from a cut file to an unknown class: neither transformers nor PEFT has a list
        names = " with ".join(map(str, (base, *adapters)))
        raise CastawayError(f"{names} cannot be loaded: {first_line(error)}") from error


def adapter_weights(model: nn.Module) -> set[nn.Parameter]:
    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    named = (pair for layer in layers for pair in layer.named_parameters())
    return {weight for name, weight in named if not name.startswith("base_layer.")}


@contextmanager
def using(model: PeftModel, adapter: str | None) -> Iterator[None]:
    """Context in which one adapter or none is active; PEFT's own functions also change which weights are trained."""
    layers: list[Any] = [layer for layer in model.modules() if isinstance(layer, BaseTunerLayer)]
    before = [(layer._active_adapter, layer._disable_adapters) for layer in layers]
    try:
        for layer in layers:
            layer._active_adapter, layer._disable_adapters = [adapter] if adapter else [], adapter is None
        yield
    finally:
        for layer, (active, disabled) in zip(layers, before, strict=True):
            layer._active_adapter, layer._disable_adapters = active, disabled


def save_adapter(model: PeftModel, folder: Path) -> None:
    """Write the trained adapter, in equal bytes on every machine: without the path of the base model."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = ""
    model.save_pretrained(str(folder), selected_adapters=["default"])
    (folder / "README.md").unlink(missing_ok=True)
    # PEFT writes sets as lists, in an order that differs between processes.
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text())
    ordered = {key: sorted(value) if isinstance(value, list) else value for key, value in config.items()}
    path.write_text(json.dumps(ordered, indent=2, sort_keys=True) + "\n", "utf-8")
