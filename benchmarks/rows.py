"""The files in which benchmarks keep a row for each variant of a run and a column for each seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def add_row(path: Path, variant: str, seed: int, figures: Mapping[str, Any], order: Sequence[str] = ()) -> None:
    """Add the metrics of a variant with a seed to a file.

    Args:
        path: the file, in `data/RUN/metrics`.
        variant: the name of the row.
        seed: of the build.
        figures: what is kept.
        order: the order of all rows; left out, that in which they were added.
    """
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    known.setdefault(variant, {})[str(seed)] = dict(figures)
    ordered = {name: known[name] for name in order or known if name in known}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(ordered, indent=2) + "\n", "utf-8")
