"""Keeps the figures of a profile's run, and writes its tables.

    python -m flows profile smollm2        build it, in scratch/smollm2
    python -m benchmarks.profiles smollm2  copy the parameters, metrics and run records from there to
                                           benchmarks/profiles/smollm2, and write docs/results.md between its markers

Models, data sets and episodes stay in scratch/smollm2.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.seeds import status_of
from castaway.cli.main import results
from castaway.errors import CastawayError

ROOT = Path(__file__).parents[1]
KEPT = ("metrics/*.json", "runs/*.json")
"""What is copied, as patterns below the folder of a run or a base model."""


def main(arguments: Sequence[str]) -> int:
    top = argparse.ArgumentParser("python -m benchmarks.profiles", description="Keep the figures of a profile's run.")
    top.add_argument("name", help="of the profile")
    name = top.parse_args(arguments).name

    def work() -> None:
        kept = keep(ROOT / "scratch" / name, ROOT / "benchmarks" / "profiles" / name)
        results(root=kept, write=ROOT / "docs" / "results.md", markers=name)

    return status_of(work)


def keep(built: Path, kept: Path) -> Path:
    """Copy the files of `KEPT`, of what was built to its end, from `built` to `kept`; returns `kept`.

    What is kept of a run or base model of the same name is replaced, and all else stays: the runs of a profile may be
    built one by one.

    Raises:
        CastawayError: nothing has been evaluated there.
    """
    if not any(built.glob("data/*/metrics/evaluate.json")):
        raise CastawayError(f"{built} has no evaluation; build it with `python -m flows profile {built.name}`")
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(built / "params.yaml", kept / "params.yaml")
    for folder in sorted(built.glob("data/*")):
        if not any((folder / "metrics" / f"{last}.json").exists() for last in ("base", "evaluate")):
            continue
        shutil.rmtree(kept / "data" / folder.name, ignore_errors=True)
        for path in sorted(path for pattern in KEPT for path in folder.glob(pattern)):
            place = kept / path.relative_to(built)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    return kept


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
