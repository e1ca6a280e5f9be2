"""sft: trains an adapter on the demonstrations with TRL's SFTTrainer; the loss is on the replies only.

The labels are our own: a chat template need not mark what the assistant says. A model of a class that training would
read wrongly is refused before anything is trained on it.

python -m flows sft@marooned
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from castaway.datasets.jsonl import DEMONSTRATIONS, read_rows, reply_text
from castaway.models.policy import load_model, lora_config, save_adapter
from castaway.models.tokens import ChatTokenizer
from castaway.models.trainers import reply_trainer
from castaway.models.training import labelled, seed_everything
from castaway.models.trial import check_model

if TYPE_CHECKING:
    from stages.context import Context

HEADLINE = {"loss": "loss", "n": "examples"}


def run(context: Context) -> dict[str, Any]:
    params = context.params.sft
    seed_everything(context.params.seed, context.params.threads)
    base = context.folder("base")
    tokenizer = ChatTokenizer.load(base)
    turns = read_rows(context.folder("dataset") / "demonstrations.jsonl", DEMONSTRATIONS)
    rows = [labelled(tokenizer.prompt(row["prompt"]), tokenizer.reply(reply_text(row["completion"]))) for row in turns]
    model, lora = load_model(base, dtype=context.dtype), lora_config(params.lora)
    check_model(model, f"the base model {context.base}")
    trainer = reply_trainer(model, tokenizer, rows, params, log=context.log, adapter=lora, **context.training)
    result = trainer.train()
    save_adapter(trainer.model, context.output)
    return {
        "examples": len(rows),
        "steps": result.global_step,
        "loss": round(result.training_loss, 6),
        "trainable_parameters": sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
    }
