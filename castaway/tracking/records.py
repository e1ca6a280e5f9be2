"""Reads and writes the small files of a stage: its figures, its curves, and the record of the run that made it.

data/RUN/metrics/STAGE.json     at most ten headline figures with short names, for `dvc metrics`
data/RUN/figures/STAGE.json     all figures; no time and no run id, so equal results give equal bytes
data/RUN/plots/STAGE.jsonl      curves, one line per step; STAGE.json holds the same as a list, for `dvc plots`
data/RUN/runs/STAGE.json        the run record: MLflow run, inputs and time; DVC restores it together with the output
data/RUN/published/STAGE.json   figures and record in git, which `castaway.metrics.built` reads where DVC has none
"""

import json
import math
import resource
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from castaway.config.errors import CastawayError
from castaway.config.yaml_file import flatten
from castaway.metrics.built import KINDS, PUBLISHED, RECORD, built, stage_path

DECIMALS = 4  # of a headline figure


def recorded(root: Path, addresses: Iterable[str], figure: str) -> dict[str, float]:
    """A value in the record of each stage's last run, of whatever inputs, for the stages whose record has it."""
    values: dict[str, float] = {}
    for address in addresses:
        name, _, run = address.partition("@")
        own, published = (read_json(root / stage_path(run, kind, name)) for kind in (KINDS[RECORD], PUBLISHED))
        value = (own or published.get(RECORD) or {}).get(figure)
        if isinstance(value, int | float):
            values[address] = float(value)
    return values


def is_record(path: str) -> bool:
    return Path(path).parent.name == KINDS[RECORD]


def headline(names: Mapping[str, str], figures: Mapping[str, Any]) -> dict[str, Any]:
    """The headline figures of a stage, rounded, from nested ones, by their short `names`; null is left out."""
    flat = flatten(figures)
    values = {name: flat[key] for name, key in names.items() if flat.get(key) is not None}
    return {name: round(value, DECIMALS) if isinstance(value, float) else value for name, value in values.items()}


def publish(root: Path, run: str, stage: str) -> None:
    """Bring the published figures and record of a stage, which git tracks, up to date with those that DVC has."""
    contents = {key: read_json(root / stage_path(run, kind, stage)) for key, kind in KINDS.items()}
    path = root / stage_path(run, PUBLISHED, stage)
    if all(contents.values()) and read_json(path) != contents:
        write_json(path, contents)


def record_of(root: Path, out: str) -> dict[str, Any]:
    """The record of the run that made the output `data/RUN/STAGE`, also from git alone; empty if there is none."""
    parts = Path(out).parts
    try:
        return dict(built(root, parts[1] if len(parts) > 2 else "", parts[-1]).record)
    except CastawayError:  # a broken file: records only inform
        return {}


def peak_memory(helpers: int = 0) -> float:
    """The most memory that this process has held, and as many helpers, each as large as the largest, in GiB."""
    try:
        status = Path("/proc/self/status").read_text("ascii")
    except OSError:  # not Linux: macOS counts in bytes
        mine, unit = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss), 1
    else:
        # Not `ru_maxrss`: that is inherited from the process that started this one, and may be larger.
        mine, unit = 2**10 * float(status.partition("VmHWM:")[2].split()[0]), 2**10
    return (mine + helpers * unit * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 2**30


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if the file is missing or invalid, since records only inform."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file with sorted keys; NaN and infinity are errors, as DVC cannot read them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CastawayError(f"{path.name}: the stage returned a value that is not JSON: {error}") from None
    path.write_text(text + "\n", encoding="utf-8")


class Curves:
    """The points of a stage's curves, one row per step, also in a journal on disk for a stage that resumes."""

    def __init__(self, journal: Path) -> None:
        """Load the journal of an earlier, killed run with the same inputs, if there is one."""
        self._rows: dict[int, dict[str, float]] = {}
        self._journal = journal
        journal.parent.mkdir(parents=True, exist_ok=True)
        written = journal.read_text(encoding="utf-8") if journal.exists() else ""
        if written and not written.endswith("\n"):  # the next line must not be glued to a broken one
            journal.write_text(f"{written}\n", encoding="utf-8")
        for line in written.splitlines():
            try:
                row = json.loads(line)
            except ValueError:  # the line that was being written when the stage was killed
                continue
            self._rows.setdefault(row.pop("step"), {}).update(row)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Add one point to each curve; CastawayError for NaN and infinity: what is trained on them is of no use."""
        finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        for name in values.keys() - finite.keys():
            raise CastawayError(f"step {step}: the curve {name} is {values[name]}, expected a finite number")
        self._rows.setdefault(int(step), {}).update(finite)
        with self._journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": int(step), **finite}) + "\n")

    def write(self, path: Path) -> None:
        """Write all curves, one line per step; into a `.json` file as a list, the only form that DVC plots.

        DVC draws a list only if its first row has every name, so what is not measured in the first step is null there.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        rows: list[dict[str, float | None]] = [
            {"step": step, **dict(sorted(self._rows[step].items()))} for step in sorted(self._rows)
        ]
        if path.suffix == ".json" and rows:
            names = sorted({name for row in rows for name in row} - {"step"})
            rows[0] = {"step": rows[0]["step"], **dict.fromkeys(names), **rows[0]}
        lines = [json.dumps(row) for row in rows]
        text = "[\n" + ",\n".join(lines) + "\n]\n" if path.suffix == ".json" else "".join(f"{line}\n" for line in lines)
        path.write_text(text, encoding="utf-8")

    def forget(self) -> None:
        self._journal.unlink(missing_ok=True)
