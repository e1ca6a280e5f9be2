"""Batches by what they cost: padded tokens, not rows, are what memory holds."""

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
