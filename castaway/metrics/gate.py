"""Whether a model may become the champion of its run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from castaway.config.sections import GateParams
from castaway.metrics.markdown import percent
from castaway.metrics.paired import paired_difference


@dataclass(frozen=True)
class Verdict:
    """What the gate says of a model."""

    refusals: tuple[str, ...]
    """Why it may not; empty if it may."""
    compared: str
    """How it does beside the champion, in words; empty if there is none."""

    @property
    def passed(self) -> bool:
        """Whether it may become the champion."""
        return not self.refusals

    def __str__(self) -> str:
        return "; ".join(self.refusals) or self.compared or "there was no champion"


def judge(
    gate: GateParams, figures: Mapping[str, Any], own: Mapping[int, bool], champion: Mapping[int, bool] | None
) -> Verdict:
    """Hold a model against the thresholds, and against the champion on the same held-out ids.

    Args:
        gate: the thresholds.
        figures: the model's figures in `metrics/evaluate.json`, with their intervals.
        own: id of an episode to success, of the model.
        champion: the same of the present champion; None if there is none.
    """
    refusals = []
    low, high = float(figures["success_rate_low"]), float(figures["invalid_rate_high"])
    if low < gate.success_rate:
        refusals.append(f"success may be {percent(low)}, and gate.success_rate is {percent(gate.success_rate)}")
    if high > gate.invalid_rate:
        refusals.append(
            f"invalid replies may be {percent(high)}, and gate.invalid_rate is {percent(gate.invalid_rate)}"
        )
    if champion is None:
        return Verdict(tuple(refusals), "")
    found, count = paired_difference(own, champion)
    if not count:
        refusals.append("the champion was evaluated on other ids; build it again with this seed to compare the two")
        return Verdict(tuple(refusals), "")
    compared = (
        f"success {100 * found.value:+.1f} points ({100 * found.low:+.1f} to {100 * found.high:+.1f}) "
        f"beside the champion's on {count} ids"
    )
    if found.low <= -gate.margin:
        refusals.append(f"{compared}, expected more than {0 - 100 * gate.margin:.1f} for certain")
    return Verdict(tuple(refusals), compared)
