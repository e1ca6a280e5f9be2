"""base: the model that everything starts from.

`tiny` is made here, from nothing: a tokenizer, a chat template with real stop tokens, and a Llama of a million
parameters pretrained on the text of scripted games, format mistakes and all, as an instruct model would make them.
Any other name is a Hugging Face model at a pinned revision; once in the local cache it needs no network.

    python -m flows base
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

from castaway.envs.corpus import Document, scripted_documents
from castaway.models.tiny import CONTEXT, new_model, train_tokenizer
from castaway.models.tokens import prompt_tokens, reply_tokens
from castaway.models.training import CurveCallback, seed_everything, trainer_settings
from stages.context import Context


def run(context: Context) -> dict[str, Any]:
    """Make or fetch the base model."""
    params = context.params.base
    seed_everything(context.params.seed, context.params.threads)
    if params.model != "tiny":
        return _fetch(context)

    # Text: scripted play, some of whose answers break the format.
    documents = scripted_documents(context.params)
    texts = [message["content"] for document in documents for message in document.messages]
    texts += [answer for document in documents for answer in document.answers]
    tokenizer = train_tokenizer(texts, params.vocabulary)
    rows = [_tokens(tokenizer, document) for document in documents]

    # Pretraining: what is learned is the answers; the situations themselves are random.
    model = new_model(params, tokenizer)
    settings = trainer_settings(
        context.scratch,
        seed=context.params.seed,
        device=context.params.device,
        epochs=params.epochs,
        batch_size=params.batch_size,
        learning_rate=params.learning_rate,
    )
    trainer = Trainer(
        model=model,
        args=TrainingArguments(**settings, adam_beta2=0.95, max_grad_norm=1.0),
        train_dataset=rows,
        data_collator=lambda batch: _collate(batch, tokenizer.pad_token_id),
        callbacks=[CurveCallback(context.log, {"loss": "loss", "learning_rate": "learning_rate"})],
    )
    result = trainer.train()
    model.save_pretrained(context.output)
    tokenizer.save_pretrained(context.output)
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "vocabulary": len(tokenizer),
        "documents": len(rows),
        "tokens": sum(len(row["input_ids"]) for row in rows),
        "longest": max(len(row["input_ids"]) for row in rows),
        "loss": round(result.training_loss, 6),
    }


def _tokens(tokenizer: Any, document: Document) -> dict[str, list[int]]:
    """One conversation; the answers follow each other, each begun by the assistant's mark, and alone are learned."""
    prompt = prompt_tokens(tokenizer, document.messages)
    mark = prompt[-1:]
    tokens, labels = list(prompt[:-1]), [-100] * (len(prompt) - 1)
    for answer in document.answers:
        reply = reply_tokens(tokenizer, document.messages, answer)
        tokens += mark + reply
        labels += [-100, *reply]
    return {"input_ids": tokens[:CONTEXT], "labels": labels[:CONTEXT]}


def _collate(rows: list[dict[str, list[int]]], pad: int) -> dict[str, torch.Tensor]:
    """Pad on the right."""
    width = max(len(row["input_ids"]) for row in rows)
    return {
        "input_ids": torch.tensor([row["input_ids"] + [pad] * (width - len(row["input_ids"])) for row in rows]),
        "labels": torch.tensor([row["labels"] + [-100] * (width - len(row["labels"])) for row in rows]),
        "attention_mask": torch.tensor(
            [[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows]
        ),
    }


def _fetch(context: Context) -> dict[str, Any]:
    """A model of the hub at its pinned revision."""
    params = context.params.base
    tokenizer = AutoTokenizer.from_pretrained(params.model, revision=params.revision)
    model: Any = AutoModelForCausalLM.from_pretrained(params.model, revision=params.revision, dtype=torch.bfloat16)
    model.save_pretrained(context.output)
    tokenizer.save_pretrained(context.output)
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "vocabulary": len(tokenizer),
        "revision": params.revision,
    }
