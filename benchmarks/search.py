"""Searches parameters with Optuna: each trial is an experiment of DVC, which `castaway compare` and MLflow know.

    python -m benchmarks.search strictbot ppo.learning_rate=1e-4:1e-2:log ppo.epochs=1:4:int --trials 20

Only PPO and what it needs is built, and what is maximised is the success of its last training episodes: a search must
not look at held-out episodes. The study is kept in scratch/optuna.db, so that a search can be stopped and continued.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna

from benchmarks.seeds import status_of
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from castaway.tools.experiments import experiments, key_for

METRIC = "last_success_rate"
"""Of `data/RUN/metrics/ppo.json`: the success of the last fifth of the training steps."""


def main(arguments: Sequence[str]) -> int:
    top = argparse.ArgumentParser("python -m benchmarks.search", description=(__doc__ or "").partition("\n")[0])
    top.add_argument("run")
    top.add_argument("ranges", nargs="+", metavar="KEY=LOW:HIGH[:log|:int]")
    top.add_argument("--trials", type=int, default=10)
    options = top.parse_args(arguments)
    return status_of(lambda: search(Path(), options.run, dict(map(range_of, options.ranges)), options.trials))


def range_of(text: str) -> tuple[str, optuna.distributions.BaseDistribution]:
    """The key and its distribution.

    Raises:
        CastawayError: the text is not of this form.
    """
    key, _, numbers = text.partition("=")
    try:
        low, high, *kind = numbers.split(":")
        if kind == ["int"]:
            return key, optuna.distributions.IntDistribution(int(low), int(high))
        if kind not in ([], ["log"]):
            raise ValueError
        return key, optuna.distributions.FloatDistribution(float(low), float(high), log=bool(kind))
    except ValueError:
        raise CastawayError(f"{text} is no range; write KEY=LOW:HIGH, with :log or :int behind it if need be") from None


def search(root: Path, run: str, ranges: Mapping[str, Any], trials: int) -> None:
    """Run so many trials more, and print the best of all."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    (root / "scratch").mkdir(exist_ok=True)
    storage = f"sqlite:///{root.resolve() / 'scratch/optuna.db'}"
    study = optuna.create_study(
        direction="maximize", storage=storage, study_name=run, load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=1),
    )  # fmt: skip
    for _ in range(trials):
        trial = study.ask(dict(ranges))
        value = tried(root, run, f"{run}-search-{trial.number}", trial.params)
        study.tell(trial, value)
        print(f"{trial.number}: {value:.4f}  {trial.params}", flush=True)
    best = study.best_trial
    print(f"best: {run}-search-{best.number} with {best.value:.4f}  {best.params}")


def tried(root: Path, run: str, name: str, params: Mapping[str, Any]) -> float:
    """Build a run's PPO with these parameters in a copy, as an experiment of that name, and return its figure.

    Raises:
        CastawayError: the build failed.
    """
    known = read_params(root / "params.yaml")
    values = [f"--set-param={key_for(known, run, key)}={value}" for key, value in params.items()]
    command = [sys.executable, "-m", "dvc", "exp", "run", "--temp", "--name", name, *values, f"ppo@{run}"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CastawayError(f"{name} failed: {' '.join(done.stderr.split())[-500:]}")
    commit = dict(experiments(root))[name]
    shown = ["git", "show", f"{commit}:data/{run}/metrics/ppo.json"]
    text = subprocess.run(shown, cwd=root, capture_output=True, text=True, check=True).stdout
    return float(json.loads(text)[METRIC])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
