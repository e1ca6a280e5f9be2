"""correction_sft: fine-tunes the PPO policy on the teacher's corrections of its replies.

python -m flows correction_sft@marooned
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transformers import Trainer

from castaway.datasets.jsonl import CORRECTIONS, Row, read_rows
from castaway.models.policy import load_adapter, load_model, save_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.models.trainers import preference_trainer, reply_trainer
from castaway.models.training import labelled, seed_everything
from castaway.rl.corrections import confirms, correction_pair, correction_tokens

if TYPE_CHECKING:
    from stages.context import Context

HEADLINE = {"loss": "loss", "n": "corrections"}


def run(context: Context) -> dict[str, Any]:
    """Train the PPO adapter further; without corrections, copy it unchanged. Returns the metrics."""
    params = context.params.correction_sft
    seed_everything(context.params.seed, context.params.threads)
    base, sft, ppo = (context.folder(stage) for stage in ("base", "sft", "ppo"))
    corrections = read_rows(ppo / "corrections.jsonl", CORRECTIONS).to_list()
    if params.method == "dpo":  # which prefers one reply to another
        corrections = [one for one in corrections if not confirms(one)]
    corrections = corrections[-params.limit :]
    if not corrections:
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            shutil.copy(ppo / name, context.output / name)
        return {"corrections": 0, "steps": 0, "loss": 0.0}
    tokenizer = ChatTokenizer.load(base)
    model = load_adapter(load_model(base, [sft], context.dtype), ppo, trainable=True)
    trainer = _trainer(context, model, tokenizer, corrections)
    result = trainer.train()
    save_adapter(trainer.model, context.output)
    return {"corrections": len(corrections), "steps": result.global_step, "loss": round(result.training_loss, 6)}


def _trainer(context: Context, model: Any, tokenizer: ChatTokenizer, corrections: Sequence[Row]) -> Trainer:
    params = context.params.correction_sft
    if params.method == "dpo":
        pairs = [correction_pair(tokenizer, correction) for correction in corrections]
        return preference_trainer(model, tokenizer, pairs, params, log=context.log, **context.training)
    rows = [labelled(*correction_tokens(tokenizer, correction)) for correction in corrections]
    return reply_trainer(model, tokenizer, rows, params, log=context.log, **context.training)
