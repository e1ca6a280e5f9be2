"""Builds a run with other seeds, to see whether its result depends on the seed.

    python -m benchmarks.seeds 2 3        then: castaway results --write README.md

For each seed, the last commit is cloned into a temporary folder, which uses the DVC cache and the MLflow store of this
repository. `seed` is changed in the clone's params.yaml, and `dvc repro` builds the run there. Its metrics are saved in
data/RUN/metrics/seeds/SEED.json, and the clone is deleted. The metrics of the seed built here are saved as well.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from castaway.errors import CastawayError
from castaway.metrics import ledger

ROOT = Path(__file__).parents[1]
MEASURED = ("evaluate", "reward_model")
"""The stages whose metrics are saved."""
CODE = ("castaway", "stages", "flows", "params.yaml", "dvc.yaml")
"""The files that a result depends on."""


def main(arguments: Sequence[str]) -> int:
    top = argparse.ArgumentParser("python -m benchmarks.seeds", description=(__doc__ or "").partition("\n")[0])
    top.add_argument("seeds", nargs="+", type=int, metavar="SEED")
    top.add_argument("--task", default="marooned")
    options = top.parse_args(arguments)

    def work() -> None:
        require_commit()
        built = built_seed(ROOT, options.task)
        save(ROOT, options.task, built, ROOT)
        for seed in options.seeds:
            if seed != built:
                print(f"seed {seed}", flush=True)
                build(options.task, seed)

    return status_of(work)


def status_of(work: Callable[[], None]) -> int:
    """Run a command and return its exit status: 2 for an error that the user can fix, 130 after Ctrl-C."""
    try:
        work()
    except CastawayError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 0


def require_commit() -> None:
    """Check that the code is committed: clones contain only commits, and all rows of a table need the same code.

    Raises:
        CastawayError: there are uncommitted changes.
    """
    changed = run(ROOT, "git", "status", "--porcelain", "--", *CODE).splitlines()
    if changed:
        raise CastawayError(
            f"{changed[0][3:]} is not committed ({len(changed)} such files); commit, then run the seeds"
        )


def build(task: str, seed: int) -> None:
    """Build the run in a clone with another seed, and save its metrics.

    Raises:
        CastawayError: the build failed.
    """
    with tempfile.TemporaryDirectory(prefix=f"castaway-seed-{seed}-") as folder:
        clone = Path(folder) / "castaway"
        clone_with_seed(clone, seed)
        reproduce(clone, f"merge@{task}", f"evaluate@{task}")
        save(clone, task, seed, ROOT)


def clone_with_seed(clone: Path, seed: int) -> None:
    """Clone the last commit, unless it is there already, with the DVC cache of this repository and another seed."""
    if not clone.exists():
        run(ROOT, "git", "clone", "--quiet", str(ROOT), str(clone))
    dvc(clone, "config", "--local", "cache.dir", dvc(ROOT, "cache", "dir").strip())
    set_seed(clone / "params.yaml", seed)


def reproduce(clone: Path, *stages: str) -> None:
    """Run stages in a clone with DVC, and show what they print.

    Raises:
        CastawayError: one of them failed.
    """
    command = [sys.executable, "-m", "dvc", "repro", *stages]
    if subprocess.run(command, cwd=clone, env=environment(), check=False).returncode:
        raise CastawayError(f"`dvc repro {' '.join(stages)}` failed; see the messages above")


def set_seed(path: Path, seed: int) -> None:
    """Change the seed in params.yaml.

    Raises:
        CastawayError: the file has not exactly one line with a seed.
    """
    # By a regular expression and not a YAML library, which might reformat the rest of the file.
    text, count = re.subn(r"(?m)^seed: *\d+", f"seed: {seed}", path.read_text(encoding="utf-8"))
    if count != 1:
        raise CastawayError(f"{path.name} has {count} lines that begin with `seed:` and a number, expected one")
    path.write_text(text, encoding="utf-8")


def save(source: Path, task: str, seed: int, root: Path) -> Path:
    """Copy the metrics of a build to data/RUN/metrics/seeds/SEED.json, and return that path.

    Raises:
        CastawayError: a stage has no metrics.
    """
    metrics = source / "data" / task / "metrics"
    record: dict[str, Any] = {"seed": seed}
    for stage in MEASURED:
        try:
            record[stage] = json.loads((metrics / f"{stage}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CastawayError(
                f"{metrics / stage}.json does not exist; run `dvc repro {stage}@{task}` first"
            ) from None
    # The clone is deleted, and what it asked has to be known all the same.
    ledger.add(root / "data" / task / "metrics" / ledger.FILE, ledger.read(metrics / ledger.FILE))
    path = root / "data" / task / "metrics" / "seeds" / f"{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return path


def built_seed(root: Path, task: str) -> int:
    """The seed of the metrics in this repository, according to dvc.lock.

    Raises:
        CastawayError: the run has not been built here, or its stages have different seeds.
    """
    try:
        lock = YAML(typ="safe", pure=True).load((root / "dvc.lock").read_text(encoding="utf-8"))
        seeds = {lock["stages"][f"{stage}@{task}"]["params"]["params.yaml"]["seed"] for stage in MEASURED}
    except (OSError, KeyError, TypeError):
        raise CastawayError(f"{task} has not been built here; `dvc repro` builds the runs of params.yaml") from None
    if len(seeds) != 1:
        raise CastawayError(f"the stages of {task} were built with different seeds; run `dvc repro` first")
    return int(seeds.pop())


def environment() -> dict[str, str]:
    """Environment variables with which a clone's stages use this Python and the MLflow store of this repository."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    store = {"MLFLOW_TRACKING_URI": f"sqlite:///{ROOT / 'mlflow.db'}"}
    return {**store, **os.environ, "PATH": path, "DVC_NO_ANALYTICS": "1"}


def dvc(root: Path, *arguments: str) -> str:
    return run(root, sys.executable, "-m", "dvc", *arguments)


def run(root: Path, *command: str) -> str:
    """Run a command and return its standard output.

    Raises:
        CastawayError: its exit status is not 0.
    """
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        reason = " ".join((done.stderr or done.stdout).split())
        raise CastawayError(f"`{' '.join(command[:4])} ...` failed: {reason[-300:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
