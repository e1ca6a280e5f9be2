"""Converts chat messages to tokens, and pads rows of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerBase

from castaway.tasks.environment import Message


def prompt_tokens(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> list[int]:
    """The token ids of a conversation, up to where the assistant's reply starts."""
    text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    tokens: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return tokens


def reply_tokens(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], reply: str) -> list[int]:
    """The token ids of the assistant's reply after these messages, including its stop token.

    Raises:
        ValueError: the chat template writes the prompt differently once a reply follows.
    """
    start = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template(
        [*messages, {"role": "assistant", "content": reply}], tokenize=False, add_generation_prompt=False
    )
    if not whole.startswith(start):
        raise ValueError("the chat template does not continue its own generation prompt")
    # Some templates write a line break after the stop token, which a model never generates.
    tokens: list[int] = tokenizer(whole[len(start) :].rstrip("\n"), add_special_tokens=False)["input_ids"]
    return tokens


def pad_left(rows: Sequence[Sequence[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows padded on the left to the longest one.

    Returns:
        Token ids and attention mask, both of shape (rows, longest).
    """
    width = max(len(row) for row in rows)
    tokens = torch.full((len(rows), width), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for number, row in enumerate(rows):
        tokens[number, width - len(row) :] = torch.tensor(row, dtype=torch.long)
        mask[number, width - len(row) :] = 1
    return tokens, mask


def positions(mask: torch.Tensor) -> torch.Tensor:
    """Position ids of the same shape as the mask, for left-padded rows: 0 at the first token that is no padding."""
    return (mask.cumsum(-1) - 1).clamp(min=0)
