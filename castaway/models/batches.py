"""Groups rows into batches by their number of padded tokens, which decides their memory and time."""

from __future__ import annotations

from collections.abc import Sequence


def by_tokens(lengths: Sequence[int], budget: int, order: Sequence[int] | None = None) -> list[list[int]]:
    """Group rows so that the padded size of each group is at most `budget` tokens.

    A row that is longer than the budget forms a group of its own. If all rows fit into one group, their order stays.

    Args:
        lengths: length of each row, in tokens.
        budget: in tokens.
        order: neighbours in it are grouped; None: by length, because all rows of a group are padded to its longest.

    Returns:
        The indices of the rows of each group.
    """
    if not lengths:
        return []
    if len(lengths) * max(lengths) <= budget:
        return [list(range(len(lengths)))]
    groups: list[list[int]] = [[]]
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]) if order is None else order:
        longest = max(longest, lengths[index])
        if groups[-1] and (len(groups[-1]) + 1) * longest > budget:
            groups.append([])
            longest = lengths[index]
        groups[-1].append(index)
    return groups


OPEN_BINS = 50
"""Number of bins, the newest ones, that are tried before a new one is opened: more would fill the bins only a little
better, and take longer."""


def first_fit(lengths: Sequence[int], width: int) -> list[list[int]]:
    """Pack pieces into bins by first fit: each goes into the first of the newest `OPEN_BINS` bins that has room.

    A piece that is longer than a bin gets a bin of its own.

    Args:
        lengths: length of each piece, in tokens.
        width: of a bin, in tokens.

    Returns:
        The indices of the pieces in each bin.
    """
    bins: list[list[int]] = []
    free: list[int] = []
    for index, length in enumerate(lengths):
        first = max(0, len(bins) - OPEN_BINS)
        place = next((place for place in range(first, len(bins)) if length <= free[place]), len(bins))
        if place == len(bins):
            bins.append([])
            free.append(width)
        bins[place].append(index)
        free[place] -= length
    return bins
