"""95 % confidence intervals of shares and means."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from random import Random

Z95 = 1.959963984540054  # two-sided 95 % quantile of the normal distribution


@dataclass(frozen=True, slots=True)
class Interval:
    value: float
    low: float
    high: float

    def entries(self, name: str) -> dict[str, float]:
        """The interval as metrics, rounded to 6 decimals: `NAME`, `NAME_low`, `NAME_high`."""
        return {name: round(self.value, 6), f"{name}_low": round(self.low, 6), f"{name}_high": round(self.high, 6)}


def proportion(successes: int, trials: int) -> Interval:
    """The share of successes with its Wilson score interval (Wilson 1927); 0 trials give the interval from 0 to 1.

    centre = (p + z^2 / 2n) / (1 + z^2 / n)
    half   = z / (1 + z^2 / n) * sqrt(p (1 - p) / n + z^2 / 4n^2)
    """
    if not trials:
        return Interval(0.0, 0.0, 1.0)
    share, z_square = successes / trials, Z95 * Z95
    scale = 1 + z_square / trials
    centre = (share + z_square / (2 * trials)) / scale
    half = Z95 / scale * sqrt(share * (1 - share) / trials + z_square / (4 * trials * trials))
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))


def clustered_mean(clusters: Sequence[Sequence[float]], resamples: int = 1000) -> Interval:
    """The mean of all values, with a percentile interval from a cluster bootstrap (Efron 1979) with a fixed seed.

    Whole clusters, such as episodes, are resampled: their values depend on each other. Empty ones are ignored.
    """
    filled = [cluster for cluster in clusters if cluster]
    if not filled:
        return Interval(0.0, 0.0, 0.0)
    sums = [(sum(cluster), len(cluster)) for cluster in filled]
    random = Random(0)
    means = []
    for _ in range(resamples):
        drawn = random.choices(sums, k=len(sums))
        means.append(sum(total for total, _ in drawn) / sum(count for _, count in drawn))
    means.sort()
    value = sum(total for total, _ in sums) / sum(count for _, count in sums)
    return Interval(value, means[int(0.025 * resamples)], means[int(0.975 * resamples) - 1])
