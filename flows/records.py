"""What a stage leaves beside its out: metrics, curves, and the record of the run that made it.

data/TASK/metrics/STAGE.json   the numbers, with sorted keys: no time and no run id, so equal runs give equal bytes
data/TASK/plots/STAGE.jsonl    the curves, one line a step; STAGE.json is the same as a list, for `dvc plots`
data/TASK/runs/STAGE.json      which run, from which inputs, when; comes back with a restore from the cache
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from castaway.errors import CastawayError


def folder(root: Path, task: str) -> Path:
    """Where the small files of a task, or of a base model, are; those of a stage of neither are one level up."""
    return root / "data" / task if task else root / "data"


def metrics_path(root: Path, task: str, stage: str) -> Path:
    """The stage's numbers."""
    return folder(root, task) / "metrics" / f"{stage}.json"


def record_path(root: Path, task: str, stage: str) -> Path:
    """The record of the run that made the stage's out."""
    return folder(root, task) / "runs" / f"{stage}.json"


def record_of(root: Path, out: str) -> dict[str, Any]:
    """The record of the run that made the out `data/TASK/STAGE`; empty where there is none."""
    path = root / out
    return read_json(path.parent / "runs" / f"{path.name}.json")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or an empty one where the file is missing or broken: records inform, they decide nothing."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write with sorted keys; a number that JSON does not know stops the stage, for no later step could compare it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CastawayError(f"{path.name}: the stage returned what JSON cannot hold: {error}") from None
    path.write_text(text + "\n", encoding="utf-8")


class Curves:
    """The points of a stage's curves, one row a step, kept on disk so that a resumed stage has its past too.

    A stage that resumes from a checkpoint repeats some steps; what it logs again replaces what was logged before.
    """

    def __init__(self, journal: Path) -> None:
        """Go on with the journal of an earlier, killed run of the same inputs, if there is one."""
        self._rows: dict[int, dict[str, float]] = {}
        self._journal = journal
        journal.parent.mkdir(parents=True, exist_ok=True)
        for line in journal.read_text(encoding="utf-8").splitlines() if journal.exists() else ():
            try:
                row = json.loads(line)
            except ValueError:  # the line that was being written when the stage was killed
                continue
            self._rows.setdefault(row.pop("step"), {}).update(row)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """One point of each curve in `values`; what is not finite is left out, for no plot can show it."""
        finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        self._rows.setdefault(int(step), {}).update(finite)
        with self._journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": int(step), **finite}) + "\n")

    def write(self, path: Path) -> None:
        """The whole of the curves, one line a step; a `.json` file is a list of them, the only form that DVC draws."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"step": step, **dict(sorted(self._rows[step].items()))}) for step in sorted(self._rows)]
        text = "[\n" + ",\n".join(lines) + "\n]\n" if path.suffix == ".json" else "".join(f"{line}\n" for line in lines)
        path.write_text(text, encoding="utf-8")

    def forget(self) -> None:
        """Remove the journal, after success."""
        self._journal.unlink(missing_ok=True)
