"""merge: merges the final adapters into the base model, and saves it as files that plain transformers loads.

    python -m flows merge@marooned

The result is verified: the reloaded model must give the same logits as the base model with its adapters.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from castaway.datasets.scripted import read_demonstrations
from castaway.errors import CastawayError
from castaway.models.policy import load_adapter, load_model, load_tokenizer
from castaway.models.tokens import prompt_tokens
from castaway.models.training import seed_everything
from stages.context import Context

PROBES = 16
"""Number of prompts on which the logits are compared."""


def run(context: Context) -> dict[str, Any]:
    """Merge, save, reload and compare; returns the metrics.

    Raises:
        CastawayError: the logits differ by more than `merge.tolerance`.
    """
    params = context.params.merge
    seed_everything(context.params.seed, context.params.threads)
    base, sft, final = (context.folder(stage) for stage in ("base", "sft", "correction_sft"))
    tokenizer = load_tokenizer(base)
    demonstrations = read_demonstrations(context.folder("dataset") / "demonstrations.jsonl")[:PROBES]
    probes = [torch.tensor([prompt_tokens(tokenizer, row.messages)]) for row in demonstrations]

    # Compare in a higher precision than the stored one. Otherwise the rounding inside the layers, which is no fault of
    # the export, would hide the rounding of the weights.
    dtype = getattr(torch, params.dtype)
    precise = torch.float64 if dtype == torch.float32 else torch.float32
    adapted: Any = load_adapter(load_model(base, [sft]), final, trainable=False).eval()
    loaded = adapted.dtype
    before = _logits(adapted.to(precise), probes)
    merged = adapted.to(loaded).merge_and_unload().to(dtype)
    merged.save_pretrained(context.output)
    tokenizer.save_pretrained(context.output)
    reloaded: Any = AutoModelForCausalLM.from_pretrained(context.output, dtype=dtype).eval()
    after = _logits(reloaded.to(precise), probes)
    difference = max(float((one - other).abs().max()) for one, other in zip(before, after, strict=True))
    if not difference <= params.tolerance:
        raise CastawayError(
            f"merge@{context.run}: the merged logits differ by {difference:.2g}, more than merge.tolerance "
            f"{params.tolerance:.2g}; merge in float32 or raise the tolerance"
        )
    _card(context, context.output)
    return {
        "largest_logit_difference": float(f"{difference:.3g}"),
        "parameters": sum(weight.numel() for weight in reloaded.parameters()),
    }


def _logits(model: Any, prompts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Logits of shape (1, tokens, vocabulary) for each prompt of shape (1, tokens)."""
    with torch.inference_mode():
        return [model(input_ids=prompt).logits for prompt in prompts]


def _card(context: Context, folder: Path) -> None:
    """Write the model card."""
    model, dtype = context.params.bases[context.base].origin, context.params.merge.dtype
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

How well it plays is in `data/{context.run}/metrics/evaluate.json`, under `final`.
"""
    (folder / "README.md").write_text(text, "utf-8")
