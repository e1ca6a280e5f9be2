"""Keeps the figures of a profile's build in git, which ignores `scratch`.

    python -m flows profile smollm2        builds it in scratch/smollm2
    python -m benchmarks.profiles smollm2  its parameters, figures and run records, in benchmarks/profiles/smollm2.*

`castaway results --all --root scratch/smollm2` prints the tables.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from castaway.metrics import ledger

ROOT = Path(__file__).parents[1]


def main(name: str, root: Path = ROOT) -> None:
    built, kept = root / "scratch" / name, root / "benchmarks" / "profiles" / f"{name}.json"
    content = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    for run in sorted(built.glob("data/*")):
        if stages := {path.stem: json.loads(path.read_text("utf-8")) for path in run.glob("published/*.json")}:
            asked = ledger.read(run / "metrics" / ledger.FILE)
            content[run.name] = {**stages, **({"ledger": {"asked": asked}} if asked else {})}
    kept.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")
    shutil.copyfile(built / "params.yaml", kept.with_suffix(".yaml"))


if __name__ == "__main__":
    main(*sys.argv[1:])
