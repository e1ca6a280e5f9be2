"""sft: trains an adapter on the demonstrations with TRL's SFTTrainer; the loss is on the replies only.

The labels are our own: a chat template need not mark what the assistant says.

python -m flows sft@marooned
"""

from __future__ import annotations

from typing import Any

from datasets import Dataset
from trl import SFTConfig

from castaway.datasets.scripted import read_demonstrations
from castaway.models.policy import load_model, lora_config, save_adapter
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
from stages.context import Context


def run(context: Context) -> dict[str, Any]:
    """Train the adapter; returns the metrics."""
    params = context.params.sft
    seed_everything(context.params.seed, context.params.threads)
    base = context.folder("base")
    tokenizer = ChatTokenizer.load(base)
    demonstrations = read_demonstrations(context.folder("dataset") / "demonstrations.jsonl")
    rows = [labelled(tokenizer.prompt(row.messages), tokenizer.reply(row.reply)) for row in demonstrations]
    model = load_model(base, dtype=context.dtype)
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
        peft_config=lora_config(params.lora),
        callbacks=[CurveCallback(context.log, {"loss": "loss", "mean_token_accuracy": "token_accuracy"})],
    )
    result = trainer.train()
    save_adapter(trainer.model, context.output)
    return {
        "examples": len(rows),
        "steps": result.global_step,
        "loss": round(result.training_loss, 6),
        "trainable_parameters": sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
    }
