"""merge: merges the final adapters into the base model, and saves it as files that plain transformers loads.

    python -m flows merge@marooned

The result is verified, on the device that trained: the next-token distributions of the reloaded model must be those of
the policy, as far as the precision of the stored weights allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from castaway.config.bases import BaseTextParams
from castaway.config.errors import CastawayError
from castaway.datasets.jsonl import DEMONSTRATIONS, read_rows
from castaway.models.merging import merge
from castaway.models.training import seed_everything

if TYPE_CHECKING:
    from stages.context import Context

HEADLINE = {"loss": "divergence"}
"""Short name to figure, for `dvc metrics`: what is lost by the merge, as the KL divergence of a token in nats."""
PROBES = 16  # number of prompts on which the logits are compared


def run(context: Context) -> dict[str, Any]:
    """Merge, save, reload and compare; CastawayError if the distributions differ by more than `merge.tolerance`."""
    seed_everything(context.params.seed, context.params.threads)
    base, *adapters = (context.folder(stage) for stage in ("base", "sft", "correction_sft"))
    demonstrations = read_rows(context.folder("dataset") / "demonstrations.jsonl", DEMONSTRATIONS)
    prompts = [row["prompt"] for row in demonstrations.take(PROBES)]
    device = context.torch_device
    try:
        figures = merge(base, adapters, context.output, prompts, context.dtype, context.params.merge, device)
    except CastawayError as error:
        raise CastawayError(f"merge@{context.run}: {error}") from None
    _card(context)
    return figures


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
