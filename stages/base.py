"""base: makes or fetches the base model that runs start from.

    python -m flows base@games

A block under `bases` with `text` is trained here from scratch: a tokenizer, a chat template with stop tokens, and a
Llama of about a million parameters. Its text is scripted play, in which some replies break the format, as those of an
instruct model would. Any other block names a model that exists already (`castaway/bases/sources.py`); what was fetched
is tried, so that one that cannot be sampled from, trained or merged is refused before a run is built on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from transformers import Trainer, TrainingArguments

from castaway.bases.copying import begin_with_copying
from castaway.bases.sources import fetch, save
from castaway.bases.tiny import CONTEXT, Document, new_model, scripted_documents, task_words, train_tokenizer
from castaway.config.bases import BaseTextParams
from castaway.config.errors import CastawayError
from castaway.models.rows import first_fit
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import CurveCallback, seed_everything, trainer_settings
from castaway.tools.check_model import check_folder

if TYPE_CHECKING:
    from stages.context import Context

HEADLINE = {"loss": "loss", "n": "documents"}
"""Short name to figure, for `dvc metrics`. All stages share few names, so that its one table fits a terminal."""


def run(context: Context) -> dict[str, Any]:
    own = context.params.bases[context.base]
    seed_everything(context.params.seed, context.params.threads)
    if not isinstance(own, BaseTextParams):
        model, tokenizer = fetch(own, context.root, context.scratch, context.packages)
        save(model, tokenizer, context.output)
        found = figures(model, tokenizer)
        del model  # the trial loads what was saved
        print("\n".join(check_folder(context.output, own.dtype, own.origin)))
        return found

    # Text: scripted play, in which some answers break the format.
    params = context.params.base
    documents = scripted_documents(params, own, context.params.seed)
    texts = [message["content"] for document in documents for message in document.messages]
    texts += [answer for document in documents for answer in document.answers]
    tokenizer = train_tokenizer(texts, params.vocabulary, task_words(own) if own.whole_words else ())
    shuffled = Random(context.params.seed).sample(documents, len(documents))
    chat = ChatTokenizer(tokenizer)
    pieces = [document_tokens(chat, document) for document in shuffled]
    check_lengths(pieces, context.base)
    rows = packed(pieces)

    # Pretraining: the loss is on the answers only, since the situations are random and cannot be predicted.
    model = new_model(params, tokenizer)
    if own.attention == "copying":
        begin_with_copying(model)
    settings = trainer_settings(
        context.scratch,
        seed=context.params.seed,
        device=context.device,
        epochs=params.epochs,
        # The parameter counts documents, the trainer rows, each of which holds several documents.
        batch_size=max(1, round(params.batch_size * len(rows) / len(documents))),
        learning_rate=params.learning_rate,
        examples=len(rows),
    )
    trainer = AnswerTrainer(
        model=model,
        args=TrainingArguments(**settings, adam_beta2=0.95, max_grad_norm=1.0, remove_unused_columns=False),
        train_dataset=rows,
        data_collator=lambda batch: collate(batch, tokenizer.pad_token_id),
        callbacks=[CurveCallback(context.log, {"loss": "loss", "learning_rate": "learning_rate"})],
    )
    result = trainer.train()
    save(model, tokenizer, context.output)
    return {
        **figures(model, tokenizer),
        "documents": len(documents),
        "tokens": sum(len(row["input_ids"]) for row in rows),
        "longest": max(len(piece["input_ids"]) for piece in pieces),
        "loss": round(result.training_loss, 6),
    }


def figures(model: Any, tokenizer: Any) -> dict[str, int]:
    """The metrics of any base model: its parameters, tied ones counted once, and its tokens."""
    return {"parameters": sum(weight.numel() for weight in model.parameters()), "vocabulary": len(tokenizer)}


WIDTH = 256  # width, in tokens, of the rows that documents are packed into; a longer document is a row of its own


class AnswerTrainer(Trainer):
    """A trainer that computes logits only for tokens with a label: the usual loss, in less time."""

    def compute_loss(self, model: Any, inputs: dict[str, torch.Tensor], *_: Any, **__: Any) -> torch.Tensor:
        """The mean cross entropy of the answers' tokens, in nats."""
        labels = inputs.pop("labels")[:, 1:]
        learned = labels != -100
        hidden = model.model(**inputs).last_hidden_state[:, :-1]
        return torch.nn.functional.cross_entropy(model.lm_head(hidden[learned]), labels[learned])


def document_tokens(tokenizer: ChatTokenizer, document: Document) -> dict[str, list[int]]:
    """One situation followed by all its answers, so that the situation is computed only once.

    Each answer gets the positions that it would have as the only one: it begins with the assistant's token and
    continues from the end of the situation. Only the answers have labels. All four lists are of equal length;
    `branches` is 0 for the situation and 1, 2, ... for its answers.
    """
    prompt = tokenizer.prompt(document.messages)
    start = len(prompt) - 1
    row = {
        "input_ids": prompt[:start],
        "labels": [-100] * start,
        "position_ids": list(range(start)),
        "branches": [0] * start,
    }
    for number, answer in enumerate(document.answers, start=1):
        reply = tokenizer.reply(answer)
        row["input_ids"] += prompt[start:] + reply
        row["labels"] += [-100, *reply]
        row["position_ids"] += range(start, start + 1 + len(reply))
        row["branches"] += [number] * (1 + len(reply))
    return {name: values[:CONTEXT] for name, values in row.items()}


def check_lengths(pieces: Sequence[dict[str, list[int]]], base: str) -> None:
    """Refuse text of which little could be learned, since prompts alone fill the model's context."""
    cut = sum(not any(label >= 0 for label in piece["labels"]) for piece in pieces)
    if cut > len(pieces) / 100:
        raise CastawayError(
            f"in {cut} of {len(pieces)} documents of the text of bases.{base} the prompt alone fills the {CONTEXT} "
            "tokens that the tiny model reads: render shorter prompts, or name a model of the Hub as base"
        )


def packed(pieces: Sequence[dict[str, list[int]]]) -> list[dict[str, list[int]]]:
    """Several documents in each row, which saves half of the padding; `documents` tells them apart."""
    rows = []
    for bin_ in first_fit([len(piece["input_ids"]) for piece in pieces], WIDTH):
        row = {name: [token for index in bin_ for token in pieces[index][name]] for name in pieces[0]}
        row["documents"] = [number for number, index in enumerate(bin_) for _ in pieces[index]["input_ids"]]
        rows.append(row)
    return rows


def collate(rows: list[dict[str, list[int]]], pad: int) -> dict[str, torch.Tensor]:
    """A batch, padded on the right, with `attention_mask` of shape (batch, 1, attending token, attended token).

    A token attends to the earlier tokens of its own answer and of its situation, and to nothing else.
    """
    width = max(len(row["input_ids"]) for row in rows)
    filling = {"input_ids": pad, "labels": -100, "position_ids": 0, "branches": -1, "documents": -1}
    batch = {
        name: torch.tensor([row[name] + [value] * (width - len(row[name])) for row in rows])
        for name, value in filling.items()
    }
    branches, documents = batch.pop("branches"), batch.pop("documents")
    same = (branches[:, :, None] == branches[:, None, :]) | (branches[:, None, :] == 0)
    same &= documents[:, :, None] == documents[:, None, :]
    sees = same & torch.ones(width, width, dtype=torch.bool).tril()
    # An additive mask: the lowest number removes a token from the softmax. The 1 stands for all heads.
    batch["attention_mask"] = torch.zeros(sees.shape).masked_fill(~sees, torch.finfo(torch.float32).min)[:, None]
    return batch
