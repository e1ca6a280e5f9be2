"""Chat messages as tokens, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerBase

from castaway.tasks.environment import Message


def prompt_tokens(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> list[int]:
    """The tokens of a conversation up to where the assistant begins to speak."""
    text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    tokens: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return tokens


def reply_tokens(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], reply: str) -> list[int]:
    """The tokens of the assistant's reply after these messages, its stop token included."""
    start = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template(
        [*messages, {"role": "assistant", "content": reply}], tokenize=False, add_generation_prompt=False
    )
    if not whole.startswith(start):
        raise ValueError("the chat template does not continue its own generation prompt")
    tokens: list[int] = tokenizer(whole[len(start) :].rstrip("\n"), add_special_tokens=False)["input_ids"]
    return tokens


def pad_left(rows: Sequence[Sequence[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of different lengths as (batch, longest) token ids, padded on the left, and their attention mask."""
    width = max(len(row) for row in rows)
    tokens = torch.full((len(rows), width), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for number, row in enumerate(rows):
        tokens[number, width - len(row) :] = torch.tensor(row, dtype=torch.long)
        mask[number, width - len(row) :] = 1
    return tokens, mask


def positions(mask: torch.Tensor) -> torch.Tensor:
    """Position ids for left-padded rows: 0 at the first real token."""
    return (mask.cumsum(-1) - 1).clamp(min=0)
