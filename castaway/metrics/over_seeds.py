"""The mean of a figure over builds with different seeds."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev

from castaway.metrics.intervals import Z95, Interval

T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Two-sided 95 % quantiles of Student's t distribution with 1, 2, 3 ... degrees of freedom."""


def over_seeds(values: Sequence[float]) -> Interval:
    """The mean with its 95 % t interval (Student 1908); the spread between seeds is all that it knows of.

    Args:
        values: the figure of each seed, two at least.
    """
    freedom = len(values) - 1
    quantile = T95[freedom - 1] if freedom <= len(T95) else _quantile(freedom)
    half = quantile * stdev(values) / sqrt(len(values))
    return Interval(mean(values), mean(values) - half, mean(values) + half)


def _quantile(freedom: int) -> float:
    """The quantile by the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5), off by less than 0.1 % here."""
    z = Z95
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
