"""Builds an experiment that `experiments.yaml` declares: every variant with every seed, as an experiment of DVC.

    python -m flows experiment ablation@marooned
    castaway results ablation@marooned               its table again

Each build works in a copy of the last commit (`dvc exp run --temp`); stages that were built before come from the cache.
What it found is kept in `data/RUN/experiments/NAME.json`. An experiment that was stopped goes on with the build that it
was at; what was built stays, also with later code, until `dvc exp remove` forgets it.
"""

import json
import os
import sys
from collections.abc import Mapping
from copy import deepcopy
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from castaway.config.errors import CastawayError
from castaway.config.experiments import FILE, Experiment, Overrides, build_name, experiment_of
from castaway.config.yaml_file import read_yaml
from castaway.metrics import ledger
from castaway.metrics.built import Built, built
from castaway.metrics.experiments import experiment_path, experiment_report
from castaway.processes import environment
from castaway.processes.groups import Group, interruptible
from castaway.tasks.environment import held_out_block
from castaway.tasks.registry import read_params
from castaway.tools.experiments import experiments


def main(root: Path, address: str) -> int:
    """Build what is missing of an experiment, keep its figures, and print its table."""
    experiment, run = experiment_of(root, address), address.partition("@")[2]
    builds = planned(root, address, experiment)
    known = dict(experiments(root))
    if builds.keys() - known.keys():
        if not (revision := environment.revision(root)).isalnum():
            raise CastawayError(f"an experiment builds a commit, and this is {revision}; commit your changes first")
        require_fresh(root, address, experiment, [known[name] for name in builds if name in known])
    environment.use_host(root)
    for name, (variant, settings) in builds.items():
        if name not in known:
            print(f"{name} ...", flush=True)
            run_build(root, name, settings, f"{experiment.stage}@{run}")
            known = dict(experiments(root))
        made = built(root, run, experiment.stage, known[name])
        keep(experiment_path(root, address), experiment, variant, settings["seed"], made)
    print(f"\n{experiment_report(root, address)}")
    return 0


def planned(root: Path, address: str, experiment: Experiment) -> dict[str, tuple[str, Overrides]]:
    """DVC's name of each build to its variant and to what it sets; CastawayError if one is not valid."""
    run, params = address.partition("@")[2], read_yaml(root / "params.yaml")
    if run not in params["tasks"]:
        raise CastawayError(f"{FILE}: params.yaml has no run {run}; it has {', '.join(params['tasks'])}")
    builds = {}
    for variant in experiment.variants:
        check(params, experiment.settings(run, variant, experiment.seeds[0]), f"{address}, {variant}")
    for seed in experiment.seeds:
        for variant in experiment.variants:
            settings = experiment.settings(run, variant, seed)
            builds[build_name(address, variant, settings)] = variant, settings
    return builds


def check(params: Mapping[str, Any], settings: Overrides, of: str) -> None:
    changed: Any = deepcopy(params)
    for key, value in settings.items():
        *sections, last = key.split(".")
        block = changed
        for section in sections:
            block = block.setdefault(section, {})
        block[last] = value
    with TemporaryDirectory() as folder:
        path = Path(folder) / "params.yaml"
        path.write_text(json.dumps(changed), "utf-8")
        try:
            read_params(path)
        except CastawayError as error:
            raise CastawayError(f"{FILE}: {of}: {str(error).removeprefix('params.yaml: ')}") from None


def require_fresh(root: Path, address: str, experiment: Experiment, commits: list[str]) -> None:
    """Check that only the builds of this experiment, `commits`, asked its blocks of held-out ids."""
    run = address.partition("@")[2]
    own = {built(root, run, "evaluate", commit).record.get("stage_key") for commit in commits}
    blocks = {held_out_block(experiment.block, seed) for seed in experiment.seeds if experiment.block is not None}
    for row in ledger.read(root / "data" / run / "metrics" / ledger.FILE):
        if row["block"] in blocks and row["stage_key"] not in own:
            raise CastawayError(
                f"block {row['block']} of the held-out ids of {run} was asked on {row['asked'][:10]}, by commit "
                f"{row['revision'][:7]}; a block is asked once: give {address} another one in {FILE}"
            )


def run_build(root: Path, name: str, settings: Overrides, target: str) -> None:
    # `++` sets a key whether or not it is there.
    chosen = [f"--set-param=++{key}={json.dumps(value)}" for key, value in settings.items()]
    chosen += [f"--copy-paths={path}" for path in untracked(root, read_yaml(root / "params.yaml"))]
    command = [sys.executable, "-m", "dvc", "exp", "run", "--temp", f"--name={name}", *chosen, target]
    # The `python` in the commands of stages is the one that runs now.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with interruptible():  # a stage does not outlive whoever asked for it
        status = Group(command, root, {"PATH": path}).wait(inf)
    if status:
        raise CastawayError(f"{name} failed; see the messages above. The next call goes on with it")


def untracked(root: Path, params: Mapping[str, Any]) -> list[str]:
    """The models and plug-ins in a repository that git does not know: the copy of a commit lacks them."""
    blocks = [*params["bases"].values(), *params["tasks"].values()]
    named = sorted({block[key] for block in blocks for key in ("path", "code") if key in block})
    here = [path for path in named if (root / path).exists() and not {"..", "/"} & {*Path(path).parts}]
    return [path for path in here if not environment.git(root, "ls-files", "--", path)]


def keep(path: Path, experiment: Experiment, variant: str, seed: int, made: Built) -> None:
    """Add the figures of a build to the file of its experiment; what asked another block is no longer in it."""
    head = {"about": experiment.about, "figure": experiment.figure, "block": experiment.block}
    known: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    rows = known["rows"] if known.get("block") == experiment.block and known.get("figure") == experiment.figure else {}
    row = {"revision": made.record["revision"][:7], "policies": kept_figures(experiment, made.figures)}
    if experiment.block is not None:
        row["block"] = held_out_block(experiment.block, seed)
    rows.setdefault(variant, {})[str(seed)] = row
    ordered = {name: rows[name] for name in experiment.variants if name in rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**head, "rows": ordered}, indent=1) + "\n", "utf-8")


def kept_figures(experiment: Experiment, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Policy to figures, those by game with the game in their names; of `ppo` the figures of the stage."""
    if experiment.stage != "evaluate":
        return {experiment.stage: {key: value for key, value in figures.items() if not isinstance(value, dict | list)}}
    kept = {policy: dict(figures[policy]) for policy in experiment.policies if policy in figures}
    for game, of in figures.get("games", {}).items():
        for policy, own in kept.items():
            own |= {f"{game}_{key}": value for key, value in of[policy].items() if key.startswith("success_rate")}
    return kept
