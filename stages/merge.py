"""merge: merges the final adapters into the base model, and saves it as files that plain transformers loads.

    python -m flows merge@marooned

The result is verified: the next-token distributions of the reloaded model must be those of the policy, as far as the
precision of the stored weights allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForCausalLM

from castaway.config.bases import BaseTextParams
from castaway.config.errors import CastawayError
from castaway.datasets.jsonl import DEMONSTRATIONS, read_rows
from castaway.models.four_bit import dequantised
from castaway.models.policy import load_adapter, load_model
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import seed_everything

if TYPE_CHECKING:
    from stages.context import Context

HEADLINE = {"loss": "divergence"}
"""Short name to figure, for `dvc metrics`: what is lost by the merge, as the KL divergence of a token in nats."""
PROBES = 16  # number of prompts on which the logits are compared
LAST_TOKENS = 64
"""Tokens at the end of each prompt whose logits are compared: those of whole prompts would take gigabytes."""


def run(context: Context) -> dict[str, Any]:
    """Merge, save, reload and compare; CastawayError if the distributions differ by more than `merge.tolerance`."""
    params = context.params.merge
    seed_everything(context.params.seed, context.params.threads)
    base, sft, final = (context.folder(stage) for stage in ("base", "sft", "correction_sft"))
    tokenizer = ChatTokenizer.load(base)
    demonstrations = read_rows(context.folder("dataset") / "demonstrations.jsonl", DEMONSTRATIONS)
    probes = [torch.tensor([tokenizer.prompt(row["prompt"])]) for row in demonstrations.take(PROBES)]

    # In float32 both are compared in float64. Otherwise the rounding inside the layers, which is no fault of the
    # export, would hide the rounding of the weights. In bfloat16 the rounding of the weights is what counts.
    dtype = getattr(torch, params.dtype)
    precise = torch.float64 if dtype == torch.float32 and context.dtype != "nf4" else None
    adapted: Any = load_adapter(load_model(base, [sft], context.dtype), final, trainable=False).eval()
    before = _logits(adapted.to(precise), probes)
    if context.dtype == "nf4":
        merged: Any = dequantised(adapted, base)
    else:
        merged = adapted.to(getattr(torch, context.dtype)).merge_and_unload()
    merged.to(dtype)
    merged.save_pretrained(context.output)
    tokenizer.save(context.output)
    del adapted, merged
    reloaded: Any = AutoModelForCausalLM.from_pretrained(context.output, dtype=dtype).eval()
    after = _logits(reloaded.to(precise), probes)
    difference = max(float((one - other).abs().max()) for one, other in zip(before, after, strict=True))
    divergence = mean(_divergence(one, other) for one, other in zip(before, after, strict=True))
    if not divergence <= params.tolerance:
        raise CastawayError(
            f"merge@{context.run}: the merged model's distributions differ from the policy's by {divergence:.2g} nats "
            f"per token, more than merge.tolerance {params.tolerance:.2g}; merge in float32 or raise the tolerance"
        )
    _card(context)
    return {
        "largest_logit_difference": float(f"{difference:.3g}"),
        "divergence": float(f"{divergence:.3g}"),
        "parameters": sum(weight.numel() for weight in reloaded.parameters()),
    }


def _logits(model: Any, prompts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Logits of shape (1, last tokens, vocabulary) for each prompt of shape (1, tokens)."""
    with torch.inference_mode():
        return [model(input_ids=prompt, use_cache=False, logits_to_keep=LAST_TOKENS).logits for prompt in prompts]


def _divergence(before: torch.Tensor, after: torch.Tensor) -> float:
    """The mean KL divergence between next-token distributions, KL(before || after), in nats."""
    one, other = (torch.log_softmax(logits.double(), dim=-1) for logits in (before, after))
    return float((one.exp() * (one - other)).sum(-1).mean())


def _card(context: Context) -> None:
    base, dtype = context.params.bases[context.base], context.params.merge.dtype
    model = "tiny" if isinstance(base, BaseTextParams) else base.origin
    text = f"""---
library_name: transformers
base_model: {model}
tags: [castaway, reinforcement-learning, ppo, text-agent]
---

# Castaway: {context.run}

A policy for the run `{context.run}`, trained from `{model}` by supervised fine-tuning on scripted play,
PPO with a teacher's process penalties and a reward model, and supervised correction of its own mistakes. Its adapters
are merged into the weights, in {dtype}.

It answers a prompt of the environment with `REASONING:` and `ACTION:` lines and stops at its stop token.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("data/{context.run}/merge")
tokenizer = AutoTokenizer.from_pretrained("data/{context.run}/merge")
```

How well it plays is in `data/{context.run}/published/evaluate.json`, under `final`.
"""
    (context.output / "README.md").write_text(text, "utf-8")
