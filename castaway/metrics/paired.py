"""Two players on the same episodes: by how much the one succeeds more often than the other."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from castaway.metrics.intervals import Z95, Interval


def paired_difference(one: Mapping[int, bool], other: Mapping[int, bool]) -> tuple[Interval, int]:
    """Success of `one` minus that of `other` on the episodes that both played, and the number of these episodes.

    With the 95 % interval of Bonett and Price (2012, "Adjusted Wald confidence interval for a difference of binomial
    proportions based on paired data"); f is the number of episodes that only one of the two won:

        p1 = (f_one + 1) / (n + 2),  p2 = (f_other + 1) / (n + 2)
        (p1 - p2) -+ z * sqrt((p1 + p2 - (p1 - p2)^2) / (n + 2))

    Args:
        one: id of an episode to success.
        other: the same of the other player.
    """
    shared = sorted(one.keys() & other.keys())
    if not shared:
        return Interval(0.0, -1.0, 1.0), 0
    only_one = sum(one[task_id] and not other[task_id] for task_id in shared)
    only_other = sum(other[task_id] and not one[task_id] for task_id in shared)
    count = len(shared)
    first, second = (only_one + 1) / (count + 2), (only_other + 1) / (count + 2)
    centre = first - second
    half = Z95 * sqrt((first + second - centre * centre) / (count + 2))
    return Interval((only_one - only_other) / count, max(-1.0, centre - half), min(1.0, centre + half)), count
