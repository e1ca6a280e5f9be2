"""The main results table of the README: the SFT, PPO and final policy of each run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from castaway.metrics.cells import Figures, figure, from_file, share
from castaway.metrics.markdown import percent, table
from castaway.metrics.policies import POLICIES


def headline_table(folders: Mapping[str, Path]) -> str:
    """A Markdown table with three rows per run. All policies of a run played the same held-out episodes.

    Args:
        folders: the folder `data/RUN/metrics` of each run.

    Raises:
        CastawayError: a file is missing, is not JSON or lacks a figure; the message names the file.
    """
    rows = [
        row
        for run, folder in folders.items()
        for row in from_file(folder / "evaluate.json", lambda found: _rows(found))
        for row in [[run, *row]]
    ]
    return table(["run", "policy", "success (95 %)", "invalid replies", "episodes"], rows)


def _rows(evaluate: Figures) -> list[list[str]]:
    found = [(policy, figure(evaluate, policy)) for policy in POLICIES if policy != "base"]
    return [
        [
            policy,
            share(figures, "success_rate"),
            percent(figure(figures, "invalid_rate")),
            str(figure(figures, "episodes")),
        ]
        for policy, figures in found
    ]
