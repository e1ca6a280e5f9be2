"""correction_sft: fine-tunes the PPO policy on the teacher's corrections of its invalid replies.

python -m flows correction_sft@marooned
"""

from __future__ import annotations

import shutil
from typing import Any

from datasets import Dataset
from trl import SFTConfig

from castaway.models.policy import load_adapter, load_model, save_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.models.trainers import FoldedSFTTrainer
from castaway.models.training import (
    CurveCallback,
    ReplyCollator,
    labelled,
    longest,
    rows_per_pass,
    seed_everything,
    trainer_settings,
)
from castaway.rl.corrections import correction_tokens, read_corrections
from stages.context import Context


def run(context: Context) -> dict[str, Any]:
    """Train the PPO adapter further; without corrections, copy it unchanged. Returns the metrics."""
    params = context.params.correction_sft
    seed_everything(context.params.seed, context.params.threads)
    base, sft, ppo = (context.folder(stage) for stage in ("base", "sft", "ppo"))
    corrections = read_corrections(ppo / "corrections.jsonl")[-params.limit :]
    if not corrections:
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            shutil.copy(ppo / name, context.output / name)
        return {"corrections": 0, "steps": 0, "loss": 0.0}
    tokenizer = ChatTokenizer.load(base)
    rows = [labelled(*correction_tokens(tokenizer, correction)) for correction in corrections]
    model = load_adapter(load_model(base, [sft], context.dtype), ppo, trainable=True)
    settings = trainer_settings(
        context.scratch,
        seed=context.params.seed,
        device=context.params.device,
        epochs=params.epochs,
        batch_size=params.batch_size,
        learning_rate=params.learning_rate,
        rows_per_pass=rows_per_pass(params.batch_size, longest(rows), params.tokens_per_pass),
        gradient_checkpointing=context.gradient_checkpointing,
    )
    trainer = FoldedSFTTrainer(
        model=model,
        args=SFTConfig(**settings, max_length=None, packing=False),
        train_dataset=Dataset.from_list(rows),
        data_collator=ReplyCollator(model, tokenizer.pad),
        processing_class=tokenizer.tokenizer,
        callbacks=[CurveCallback(context.log, {"loss": "loss", "mean_token_accuracy": "token_accuracy"})],
    )
    result = trainer.train()
    save_adapter(trainer.model, context.output)
    return {
        "corrections": len(corrections),
        "steps": result.global_step,
        "loss": round(result.training_loss, 6),
    }
