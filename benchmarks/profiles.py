"""Keeps the figures of a profile's run, builds it with other seeds, and writes its tables.

    python -m flows profile smollm2        build it, in scratch/smollm2
    python -m benchmarks.profiles smollm2  copy the parameters, metrics and run records from there to
                                           benchmarks/profiles/smollm2, and write docs/results.md between its markers
    python -m benchmarks.profiles sizes --task openspiel --seeds 2 3 --block 21
                                           the same of seed 1, if scratch/sizes is there; then build the other seeds in
                                           scratch/sizes-2 and scratch/sizes-3, evaluated on the blocks 22 and 23

Models, data sets and episodes stay in scratch.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from benchmarks.seeds import ROOT, require_commit, save, status_of
from castaway.cli.tables import results
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from castaway.tools.experiments import key_for

KEPT = ("metrics/*.json", "runs/*.json")
"""What is copied, as patterns below the folder of a run or a base model."""


def main(arguments: Sequence[str]) -> int:
    top = argparse.ArgumentParser("python -m benchmarks.profiles", description="Keep the figures of a profile's run.")
    top.add_argument("name", help="of the profile")
    top.add_argument("--seeds", nargs="+", type=int, default=[], metavar="SEED", help="other seeds to build")
    top.add_argument("--task", help="the run to build with them")
    top.add_argument("--block", type=int, help="block of held-out ids for seed 1; left out: that of the profile")
    options = top.parse_args(arguments)
    if bool(options.seeds) != bool(options.task):
        top.error("--seeds and --task go together")

    def work() -> None:
        built, kept = ROOT / "scratch" / options.name, ROOT / "benchmarks" / "profiles" / options.name
        if built.exists() or not options.seeds:
            keep(built, kept)
        if options.seeds:
            require_commit()
            save(kept, options.task, read_params(kept / "params.yaml").seed, kept)
        for seed in options.seeds:
            build(options.name, options.task, seed, options.block, kept)
        results(root=kept, write=ROOT / "docs" / "results.md", markers=options.name)

    return status_of(work)


def build(name: str, task: str, seed: int, block: int | None, kept: Path) -> None:
    """Build a run of a profile with another seed, in scratch/NAME-SEED, and save its metrics in `kept`.

    Raises:
        CastawayError: the build failed.
    """
    chosen = ROOT / "scratch" / f"{name}-{seed}.yaml"
    chosen.parent.mkdir(exist_ok=True)
    with_seed(ROOT / "profiles" / f"{name}.yaml", chosen, task, seed, block)
    command = [sys.executable, "-m", "flows", "profile", str(chosen), f"evaluate@{task}"]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise CastawayError(f"seed {seed} of {name} could not be built; see the messages above")
    save(ROOT / "scratch" / chosen.stem, task, seed, kept)


def with_seed(profile: Path, target: Path, task: str, seed: int, block: int | None) -> None:
    """Write a profile's parameters to `target`, with another seed and, if it is given, block of held-out ids."""
    yaml = YAML()
    params: Any = yaml.load(profile.read_text("utf-8"))
    params["seed"] = seed
    if block is not None:
        *path, last = key_for(read_params(profile), task, "evaluate.block").split(".")
        section = params
        for key in path:
            section = section[key]
        section[last] = block
    with target.open("w", encoding="utf-8") as file:
        yaml.dump(params, file)


def keep(built: Path, kept: Path) -> Path:
    """Copy the files of `KEPT`, of what was built to its end, from `built` to `kept`; returns `kept`.

    What is kept of a run or base model of the same name is replaced, and all else stays: the runs of a profile may be
    built one by one, and other seeds later.

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
        for pattern in KEPT:
            for path in (kept / "data" / folder.name).glob(pattern):
                path.unlink()
        for path in sorted(path for pattern in KEPT for path in folder.glob(pattern)):
            place = kept / path.relative_to(built)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    return kept


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
