"""Keys and values of the tokens that were read, in tensors with room for those to come.

The dynamic cache of transformers makes its tensors anew for every token. With many rows, copying them takes longer than
the attention that reads them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer


def cache_with_room(tokens: int) -> Cache:
    """An empty cache. After it was first filled, so many tokens are added in place; more are added all the same."""
    return Cache(layer_class_to_replicate=partial(_LayerWithRoom, tokens))


class _LayerWithRoom(DynamicLayer):
    """The cache of one layer: `keys` and `values` are the filled parts of tensors that are longer."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room
        self._whole: list[torch.Tensor] = []
        """Keys and values with room; empty before the first tokens."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add the keys and values of tokens; returns those of all tokens."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        filled = self.get_seq_length()
        end = filled + key_states.shape[-2]
        if not self._whole or end > self._whole[0].shape[-2]:
            before = [self.keys, self.values] if filled else [None, None]
            self._whole = [
                _with_room(new, old, end + self._room)
                for new, old in zip((key_states, value_states), before, strict=True)
            ]
        for whole, new in zip(self._whole, (key_states, value_states), strict=True):
            whole[:, :, filled:end] = new
        return self._filled(end)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each row."""
        self._whole = [whole.repeat_interleave(repeats, dim=0) for whole in self._whole]
        self._filled(self.get_seq_length())

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep only these rows."""
        self._whole = [whole[indices] for whole in self._whole]
        self._filled(self.get_seq_length())

    def _filled(self, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys, self.values = (whole[:, :, :end] for whole in self._whole)
        return self.keys, self.values


def _with_room(new: torch.Tensor, old: torch.Tensor | None, tokens: int) -> torch.Tensor:
    """A tensor for so many tokens of the rows of `new`, beginning with those of `old`."""
    whole = new.new_empty((*new.shape[:-2], tokens, new.shape[-1]))
    if old is not None:
        whole[:, :, : old.shape[-2]] = old
    return whole
