"""The one table of the README: what SFT, PPO and the final policy of each run come to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from castaway.metrics.markdown import percent, table
from castaway.metrics.results import Figures, figure, from_file, share

POLICIES = ("sft", "ppo", "final")


def headline_table(folders: Mapping[str, Path]) -> str:
    """Three rows a run, from its folder `data/RUN/metrics`; all policies of a run played the same held-out episodes.

    Raises:
        CastawayError: a file is no JSON or lacks a figure; the line names the file.
    """
    rows = [
        row
        for run, folder in folders.items()
        for row in from_file(folder / "evaluate.json", lambda found: _rows(found))
        for row in [[run, *row]]
    ]
    return table(["run", "policy", "success (95 %)", "invalid replies", "episodes"], rows)


def _rows(evaluate: Figures) -> list[list[str]]:
    found = [(policy, figure(evaluate, policy)) for policy in POLICIES]
    return [
        [
            policy,
            share(figures, "success_rate"),
            percent(figure(figures, "invalid_rate")),
            str(figure(figures, "episodes")),
        ]
        for policy, figures in found
    ]
