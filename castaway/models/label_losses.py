"""The loss of each label of a batch, computed from the hidden states before the labels alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from castaway.models.hidden_states import by_chunks, hidden_states_at, next_token_logits
from castaway.models.token_scores import token_scores


def label_losses(causal: Any, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """-log p of each label of a batch (n), in nats, and whether it was the likeliest token (n).

    Args:
        causal: the causal language model.
        inputs: of the model, as in a batch of `castaway.models.training.ReplyCollator`, with `labels`.
    """
    lines, columns = (inputs["labels"] != -100).nonzero(as_tuple=True)
    rows = {name: value for name, value in inputs.items() if name != "labels"}
    before = hidden_states_at(causal.get_decoder(), lines, columns - 1, **rows, use_cache=False)

    def losses(hidden: torch.Tensor, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = next_token_logits(causal, hidden)
        right = logits.detach().argmax(-1) == tokens
        if logits.dtype is torch.float32:
            return cross_entropy(logits, tokens, reduction="none"), right
        return -token_scores(logits, tokens)[0], right

    return by_chunks(causal, losses, before, inputs["labels"][lines, columns])
