"""Intervals against known values."""

from random import Random

import pytest

from castaway.tasks.intervals import Interval, clustered_mean, proportion


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (50, 100, 0.4038, 0.5962), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0)],
)
def test_wilson_intervals_as_published(successes: int, trials: int, low: float, high: float) -> None:
    interval = proportion(successes, trials)
    assert interval.value == successes / trials
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)


def test_the_mean_is_over_all_values_and_the_interval_over_clusters() -> None:
    random = Random(1)
    levels = [random.gauss(0, 1) for _ in range(100)]
    clusters = [[level] * 20 for level in levels]
    together, apart = clustered_mean(clusters), clustered_mean([[v] for cluster in clusters for v in cluster])
    assert together.value == pytest.approx(sum(levels) / 100) == pytest.approx(apart.value)
    # The mean of 100 draws of deviation 1 has a 95 % interval of about 2 * 1.96 / 10.
    assert together.high - together.low == pytest.approx(0.39, abs=0.1)
    assert together.high - together.low > 3 * (apart.high - apart.low)
    assert together.low < together.value < together.high


def test_clusters_weigh_by_their_size_and_empty_ones_do_not_count() -> None:
    assert clustered_mean([[1.0], [4.0, 4.0, 4.0], []]).value == pytest.approx(3.25)
    assert clustered_mean([]) == clustered_mean([[]]) == Interval(0.0, 0.0, 0.0)
    assert clustered_mean([[2.0], [2.0, 2.0]]) == Interval(2.0, 2.0, 2.0)
