"""Batches by what they cost: padded tokens, not rows, are what memory holds and time goes into."""

from __future__ import annotations

from collections.abc import Sequence


def by_tokens(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """The indices of rows of these lengths, in groups whose padded size is at most `budget` tokens.

    Rows of like length go together, since the longest one decides the width of all. A row that is longer than the
    budget is a group of its own; if all rows fit into one group, they keep their order.
    """
    if not lengths:
        return []
    if len(lengths) * max(lengths) <= budget:
        return [list(range(len(lengths)))]
    groups: list[list[int]] = [[]]
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if groups[-1] and (len(groups[-1]) + 1) * lengths[index] > budget:
            groups.append([])
        groups[-1].append(index)
    return groups


OPEN = 50
"""Bins that are tried before a new one is begun: more would fill a little better and take longer."""


def first_fit(lengths: Sequence[int], width: int) -> list[list[int]]:
    """The indices of pieces of these lengths in bins of at most `width`: each in the first of the last that has room.

    A piece that is longer than a bin has one of its own.
    """
    bins: list[list[int]] = []
    free: list[int] = []
    for index, length in enumerate(lengths):
        first = max(0, len(bins) - OPEN)
        place = next((place for place in range(first, len(bins)) if length <= free[place]), len(bins))
        if place == len(bins):
            bins.append([])
            free.append(width)
        bins[place].append(index)
        free[place] -= length
    return bins
