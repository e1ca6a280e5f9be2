"""The cache with room holds what the cache of transformers holds, and copies nothing to add a token."""

from __future__ import annotations

import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache

from castaway.rl.cache import cache_with_room

ROOM = 3


def add(caches: tuple[Cache, ...], rows: int, tokens: int) -> list[torch.Tensor]:
    """Add the same random tokens to a layer of each cache; returns the keys of the first and of the second."""
    keys, values = (torch.randn(rows, tokens, 2, 4).transpose(1, 2) for _ in range(2))
    found = [cache.update(keys, values, 0) for cache in caches]
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    assert len({cache.get_seq_length() for cache in caches}) == 1
    return [keys for keys, _ in found]


def test_it_holds_what_the_dynamic_cache_holds() -> None:
    torch.manual_seed(0)
    caches: tuple[Cache, ...] = (cache_with_room(ROOM), DynamicCache())
    add(caches, rows=1, tokens=5)
    for cache in caches:
        cache.batch_repeat_interleave(4)
    add(caches, rows=4, tokens=7)
    add(caches, rows=4, tokens=1)
    for cache in caches:
        cache.batch_select_indices(torch.tensor([0, 2, 3]))
    for _ in range(2 * ROOM):
        last, _ = add(caches, rows=3, tokens=1)
    assert last.shape == (3, 2, 5 + 7 + 1 + 2 * ROOM, 4)


def test_a_token_is_added_in_place_while_there_is_room() -> None:
    caches = (cache_with_room(ROOM), cache_with_room(ROOM))
    places = [add(caches, rows=2, tokens=tokens)[0].data_ptr() for tokens in (6, *[1] * (ROOM + 1))]
    assert len(set(places[:-1])) == 1 and places[-1] not in places[:-1]
