"""correction_sft: fine-tunes the PPO policy on the teacher's corrections of its invalid replies.

python -m flows correction_sft@marooned
"""

from __future__ import annotations

import shutil
from typing import Any

from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from castaway.models.policy import load_adapter, load_model, load_tokenizer, save_adapter
from castaway.models.training import CurveCallback, seed_everything, trainer_settings
from castaway.rl.corrections import Correction, correction_tokens, read_corrections
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
    tokenizer = load_tokenizer(base)
    dataset = Dataset.from_list([_row(tokenizer, correction) for correction in corrections])
    settings = trainer_settings(
        context.scratch,
        seed=context.params.seed,
        device=context.params.device,
        epochs=params.epochs,
        batch_size=params.batch_size,
        learning_rate=params.learning_rate,
    )
    trainer = SFTTrainer(
        model=load_adapter(load_model(base, [sft]), ppo, trainable=True),
        args=SFTConfig(**settings, max_length=None, packing=False),
        train_dataset=dataset,
        processing_class=tokenizer,
        callbacks=[CurveCallback(context.log, {"loss": "loss", "mean_token_accuracy": "token_accuracy"})],
    )
    result = trainer.train()
    save_adapter(trainer.model, context.output)
    return {
        "corrections": len(corrections),
        "steps": result.global_step,
        "loss": round(result.training_loss, 6),
    }


def _row(tokenizer: Any, correction: Correction) -> dict[str, list[int]]:
    """The policy's prompt and the corrected reply; labels only on those tokens of the reply that are to be learned."""
    prompt, target, learned = correction_tokens(tokenizer, correction)
    labels = [token if flag else -100 for token, flag in zip(target, learned, strict=True)]
    return {"input_ids": prompt + target, "labels": [-100] * len(prompt) + labels}
