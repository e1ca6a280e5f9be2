"""sft: trains an adapter on the demonstrations with TRL's SFTTrainer; the loss is on the replies only.

The labels are our own: a chat template need not mark what the assistant says.

python -m flows sft@marooned
"""

from __future__ import annotations

from typing import Any

from castaway.datasets.scripted import read_demonstrations
from castaway.models.policy import load_model, lora_config, save_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.models.trainers import reply_trainer
from castaway.models.training import labelled, seed_everything
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
    trainer = reply_trainer(
        model,
        tokenizer,
        rows,
        params,
        scratch=context.scratch,
        seed=context.params.seed,
        device=context.device,
        gradient_checkpointing=context.gradient_checkpointing,
        log=context.log,
        adapter=lora_config(params.lora),
    )
    result = trainer.train()
    save_adapter(trainer.model, context.output)
    return {
        "examples": len(rows),
        "steps": result.global_step,
        "loss": round(result.training_loss, 6),
        "trainable_parameters": sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
    }
