"""Merges an adapter into a model, and saves it as files that plain transformers loads.

The result is verified: the next-token distributions of the reloaded model must be those of the adapted one, as far as
the precision of the stored weights allows.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from castaway.config.bases import Dtype
from castaway.config.errors import CastawayError
from castaway.config.sections import MergeParams
from castaway.models.four_bit import dequantised
from castaway.models.policy import load_policy
from castaway.models.tokens import ChatTokenizer
from castaway.tasks.environment import Message

LAST_TOKENS = 64
"""Tokens at the end of each prompt whose logits are compared: those of whole prompts would take gigabytes."""


def merge(
    base: Path, adapters: Sequence[Path], output: Path, prompts: Sequence[Sequence[Message]], held: Dtype,
    params: MergeParams, device: str = "cpu",
) -> dict[str, Any]:  # fmt: skip
    """Merge adapters, in their order, save the model with its tokenizer, reload it, and compare the two on prompts.

    `held` is the precision that the base model was trained in; `params` says in which one it is saved. The two are
    compared on `device`: thousands of tokens of a large model take hours on a CPU.

    Raises:
        CastawayError: the distributions differ by more than `params.tolerance`.
    """
    tokenizer = ChatTokenizer.load(base)
    probes = [torch.tensor([tokenizer.prompt(prompt)]) for prompt in prompts]
    # In float32 both are compared in float64. Otherwise the rounding inside the layers, which is no fault of the
    # export, would hide the rounding of the weights. In bfloat16 the rounding of the weights is what counts.
    dtype = getattr(torch, params.dtype)
    precise = torch.float64 if dtype == torch.float32 and held != "nf4" else None
    adapted: Any = load_policy(base, adapters, held)
    before = _logits(_held_in(adapted.to(device), precise), probes)
    merged = merged_weights(adapted, base, held).to(dtype)
    # A base model's settings of generation may lack the token that its template writes after a reply.
    stops = sorted(tokenizer.stops)
    merged.generation_config.eos_token_id = stops if len(stops) > 1 else stops[0]
    merged.save_pretrained(output)
    tokenizer.save(output)
    del adapted, merged
    reloaded: Any = AutoModelForCausalLM.from_pretrained(output, dtype=dtype).eval()
    after = _logits(_held_in(reloaded.to(device), precise), probes)
    difference = max(float((one - other).abs().max()) for one, other in zip(before, after, strict=True))
    divergence = mean(_divergence(one, other) for one, other in zip(before, after, strict=True))
    if not divergence <= params.tolerance:
        raise CastawayError(
            f"the merged model's distributions differ from the policy's by {divergence:.2g} nats per token, more than "
            f"the tolerance of {params.tolerance:.2g}; merge in float32 or raise the tolerance"
        )
    return {
        "largest_logit_difference": float(f"{difference:.3g}"),
        "divergence": float(f"{divergence:.3g}"),
        "parameters": sum(weight.numel() for weight in reloaded.parameters()),
    }


def merged_weights(adapted: Any, base: Path, held: Dtype) -> Any:
    """A plain model of the weights of the adapted one and its adapter; `adapted` is of no use afterwards.

    `held` is the precision that the base model, in the folder `base`, was loaded in.
    """
    if held == "nf4":
        return dequantised(adapted, base)
    # On the host, so that the weights do not depend on the device.
    return adapted.to("cpu", getattr(torch, held)).merge_and_unload()


def _held_in(model: Any, dtype: torch.dtype | None) -> Any:
    """The model in a precision, if one is named; transformers' fast products of experts know no float64."""
    if dtype is not None:
        getattr(model, "get_base_model", lambda: model)().set_experts_implementation("eager")
    return model.to(dtype)


def _logits(model: Any, prompts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Logits of shape (1, last tokens, vocabulary) for each prompt of shape (1, tokens), on the host."""
    settings = {"use_cache": False, "logits_to_keep": LAST_TOKENS}
    with torch.inference_mode():
        return [model(input_ids=prompt.to(model.device), **settings).logits.cpu() for prompt in prompts]


def _divergence(before: torch.Tensor, after: torch.Tensor) -> float:
    """The mean KL divergence between next-token distributions, KL(before || after), in nats."""
    one, other = (torch.log_softmax(logits.double(), dim=-1) for logits in (before, after))
    return float((one.exp() * (one - other)).sum(-1).mean())
