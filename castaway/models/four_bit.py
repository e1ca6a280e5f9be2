"""Base models whose linear layers are held in 4 bits: NF4 by bitsandbytes, doubly quantised.

(Dettmers et al. 2023, "QLoRA", arXiv:2305.14314.) They compute in bfloat16; adapters and optimiser are in float32.

Adapters of earlier stages cannot be merged into such weights: rounded to 4 bits again, most of what they learned would
be lost. They stay next to them as frozen products of two narrow matrices. To export the policy, the weights are
dequantised first and all adapters added then, so that what is exported is what was trained.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from torch import nn
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel

from castaway.config.errors import CastawayError


def load_four_bit(base: Path, adapters: Sequence[Path]) -> PreTrainedModel:
    """The base model in 4 bits, with the adapters next to its weights; CastawayError without bitsandbytes."""
    if find_spec("bitsandbytes") is None:
        raise CastawayError(
            "dtype: nf4 needs the package bitsandbytes; install it with: .venv/bin/pip install bitsandbytes==0.50.2"
        )
    settings = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16, quantization_config=settings)
    for layer in model.modules():
        # On processors with AVX512_BF16 it would change the layout of its weight when it is first read, which neither
        # the backward pass nor dequantising knows.
        if hasattr(layer, "support_avx512bf16_for_cpu"):
            layer.support_avx512bf16_for_cpu = False
    for folder in adapters:
        adapted = PeftModel.from_pretrained(model, folder)
        for layer in [module for module in adapted.modules() if isinstance(module, LoraLayer)]:
            _keep(layer)
        model = adapted.unload()
    return model.eval()


def _keep(layer: Any) -> None:
    (name,) = layer.active_adapters
    base, scale = layer.get_base_layer(), layer.scaling[name]
    number = sum(key.startswith("down_") for key, _ in base.named_buffers())
    base.register_buffer(f"down_{number}", layer.lora_A[name].weight.detach().to(torch.bfloat16))
    base.register_buffer(f"up_{number}", (scale * layer.lora_B[name].weight.detach()).to(torch.bfloat16))
    if number == 0:
        base.register_forward_hook(_add_parts)


def _parts(base: nn.Module) -> list[tuple[torch.Tensor, torch.Tensor]]:
    buffers = dict(base.named_buffers(recurse=False))
    return [(buffers[f"down_{number}"], buffers[f"up_{number}"]) for number in range(len(buffers) // 2)]


def _add_parts(base: nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    (rows,) = inputs
    for down, up in _parts(base):
        output = output + (rows.to(down.dtype) @ down.T @ up.T).to(output.dtype)
    return output


def is_four_bit(model: Any) -> bool:
    return bool(getattr(model, "is_loaded_in_4bit", False))


def dequantised(adapted: PeftModel, base: Path) -> PreTrainedModel:
    """A plain bfloat16 model that computes what the policy does: weights from their 4 bits, plus all adapters.

    The adapter is removed from `adapted`; what was never quantised is read from the folder `base`.
    """
    # Here, since it is an optional package, and takes a second to import.
    from bitsandbytes.functional import dequantize_4bit
    from bitsandbytes.nn import Linear4bit

    changes = {
        layer.get_base_layer(): layer.get_delta_weight(layer.active_adapters[0]).float()
        for layer in adapted.modules()
        if isinstance(layer, LoraLayer)
    }
    held = adapted.unload()
    plain: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    with torch.no_grad():
        for name, layer in held.named_modules():
            if isinstance(layer, Linear4bit):
                whole = dequantize_4bit(layer.weight.data, layer.weight.quant_state).float()
                whole += changes.get(layer, 0)
                for down, up in _parts(layer):
                    whole += up.float() @ down.float()
                plain.get_submodule(name).weight.copy_(whole)
    return plain
