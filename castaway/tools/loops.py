"""Recognises an answer that repeats itself: a small model that does not know how to end may do so to its limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import StoppingCriteria

LONGEST = 16
"""Largest number of tokens of the piece that is repeated."""
TIMES, TOKENS = 4, 12
"""A piece is a loop when it stands there this often in a row, and makes up this many tokens."""


def loops(tokens: Sequence[int]) -> bool:
    """Whether the tokens end in a piece that is repeated, at least `TIMES` times and over at least `TOKENS` tokens."""
    for size in range(1, LONGEST + 1):
        count = max(TIMES, -(-TOKENS // size))
        end = list(tokens[-size * count :])
        if len(end) == size * count and end == end[:size] * count:
            return True
    return False


class LoopStop(StoppingCriteria):
    """Stops `generate` when an answer repeats itself, and remembers that it did."""

    def __init__(self, prompt: int) -> None:
        """Watch what follows a prompt of so many tokens."""
        self._prompt = prompt
        self.stopped = False

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **_: Any) -> Any:
        """Whether each row ends here, as a tensor (rows); there is one row."""
        self.stopped = loops(input_ids[0, self._prompt :].tolist())
        return torch.full((len(input_ids),), self.stopped, dtype=torch.bool, device=input_ids.device)
