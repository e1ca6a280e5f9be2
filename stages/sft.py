"""sft: trains an adapter on the demonstrations with TRL's SFTTrainer; the loss is on the replies only.

python -m flows sft@marooned
"""

from __future__ import annotations

from typing import Any

from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from castaway.datasets.scripted import read_demonstrations
from castaway.models.policy import load_model, load_tokenizer, lora_config, save_adapter
from castaway.models.training import CurveCallback, seed_everything, trainer_settings
from stages.context import Context


def run(context: Context) -> dict[str, Any]:
    """Train the adapter; returns the metrics."""
    params = context.params.sft
    seed_everything(context.params.seed, context.params.threads)
    base = context.folder("base")
    tokenizer = load_tokenizer(base)
    rows = read_demonstrations(context.folder("dataset") / "demonstrations.jsonl")
    dataset = Dataset.from_list(
        [{"messages": [*row.messages, {"role": "assistant", "content": row.reply}]} for row in rows]
    )
    settings = trainer_settings(
        context.scratch,
        seed=context.params.seed,
        device=context.params.device,
        epochs=params.epochs,
        batch_size=params.batch_size,
        learning_rate=params.learning_rate,
    )
    trainer = SFTTrainer(
        model=load_model(base),
        args=SFTConfig(**settings, assistant_only_loss=True, max_length=None, packing=False),
        train_dataset=dataset,
        processing_class=tokenizer,
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
