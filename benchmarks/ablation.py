"""Measures the contribution of each part of PPO: builds a run without that part, with several seeds.

    python -m benchmarks.ablation 1 2 3   then: castaway results --write docs/results.md

Each variant is a DVC experiment (`dvc exp run --temp`) of the last commit up to `evaluate`; `dvc exp show` lists them,
and MLflow records them. Stages that ran before come from the cache. The metrics of the policy `ppo` are written to
data/RUN/metrics/ablation.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows import add_row
from benchmarks.seeds import ROOT, environment, require_commit, run, status_of
from castaway.errors import CastawayError
from castaway.metrics import ledger
from castaway.tasks.registry import read_params
from castaway.tools.experiments import key_for

AS_SHIPPED = "as shipped"
IMITATION = "what the expert plays alone, no PPO"
REPAIRS = "SFT passes on repairs alone, no PPO"
ESTIMATORS: dict[str, dict[str, float | bool | str]] = {
    "estimator reinforce": {"estimator": "reinforce"},
    "estimator rloo": {"estimator": "rloo", "group_size": 4},
    "estimator grpo": {"estimator": "grpo", "group_size": 4},
}
"""Advantages without a critic, in place of `gae`; the groups share the episodes of a step."""
VARIANTS: dict[str, dict[str, dict[str, float | bool | str]]] = {
    "marooned": {
        AS_SHIPPED: {},
        "per-turn bandit": {"gamma_turn": 0.0},
        "without process reward": {"penalty_weight": 0.0},
        "without SFT passes": {"sft_interval": 1_000_000},
        "without reward model": {"reward_model_weight": 0.0},
        REPAIRS: {"learning_rate": 1e-12},
        **ESTIMATORS,
    },
    "openspiel": {
        AS_SHIPPED: {},
        "without the expert's moves": {"correct": "invalid"},
        IMITATION: {"learning_rate": 1e-12},
        "without replay": {"replay.share": 0.0},
        "without curriculum": {"curriculum": False},
    },
    "strictbot": {
        AS_SHIPPED: {},
        "without process reward": {"penalty_weight": 0.0},
        "without SFT passes": {"sft_interval": 1_000_000},
        "without reward model": {"reward_model_weight": 0.0},
        **ESTIMATORS,
    },
}
"""For each run, the changes of `ppo` in params.yaml by variant. In a bandit, the return of a turn is its own reward.
With a learning rate of all but 0 PPO does nothing, and what remains are the SFT passes on what the teacher said: in
OpenSpiel what the expert plays (`ppo.correct: moves`), in MAROONED repaired invalid replies."""
FURTHER_EPISODES = 10
"""Episodes of every seat except the first; few, since only the first seat is compared."""
MEASURED = ("success_rate", "invalid_rate", "mean_return", "episodes")
"""The metrics that are saved; of the first three, with their intervals."""


def main(arguments: Sequence[str]) -> int:
    top = argparse.ArgumentParser("python -m benchmarks.ablation", description=(__doc__ or "").partition("\n")[0])
    top.add_argument("seeds", nargs="+", type=int, metavar="SEED")
    top.add_argument("--task", default="marooned", choices=VARIANTS)
    top.add_argument("--variant", action="append", help="a variant to build, can be given several times; default: each")
    top.add_argument("--episodes", type=int, default=100, help="held-out episodes of each run")
    top.add_argument("--block", type=int, help="block of held-out ids for seed 1; left out: that of params.yaml")
    options = top.parse_args(arguments)

    def work() -> None:
        require_commit()
        path = ROOT / "data" / options.task / "metrics" / "ablation.json"
        variants = variants_of(options.task, options.variant)
        for seed in options.seeds:
            for variant in variants:
                changes = settings(options.task, variant, options.episodes, options.block)
                figures = measure(options.task, variant, seed, changes)
                add_row(path, variant, seed, figures, list(VARIANTS[options.task]))

    return status_of(work)


def variants_of(task: str, wanted: Sequence[str] | None) -> list[str]:
    """The names of the variants of a run to build.

    Raises:
        CastawayError: the run has no variant of that name.
    """
    unknown = sorted(set(wanted or ()) - set(VARIANTS[task]))
    if unknown:
        raise CastawayError(f"{task} has no variant {', '.join(unknown)}; it has {', '.join(VARIANTS[task])}")
    return list(wanted or VARIANTS[task])


def settings(task: str, variant: str, episodes: int, block: int | None = None) -> dict[str, float | bool | str]:
    """The parameters that an experiment sets, by dotted key; where the run overrides a key, in the run's block."""
    params = read_params(ROOT / "params.yaml")
    evaluation = {"episodes": episodes, "further_episodes": FURTHER_EPISODES, "best_of": 1}
    if block is not None:
        evaluation["block"] = block
    changed = {key_for(params, task, f"ppo.{key}"): value for key, value in VARIANTS[task][variant].items()}
    if "group_size" in VARIANTS[task][variant]:
        # The defaults have to be divisible, too, though the run has its own number of episodes.
        changed.setdefault("ppo.episodes_per_step", VARIANTS[task][variant]["group_size"])
    return {**changed, **{key_for(params, task, f"evaluate.{key}"): value for key, value in evaluation.items()}}


def measure(task: str, variant: str, seed: int, changes: Mapping[str, float | bool | str]) -> dict[str, float | str]:
    """Run one experiment, unless this commit has one with the same changes, and return the metrics of its `ppo`.

    Raises:
        CastawayError: the experiment failed.
    """
    revision = run(ROOT, "git", "rev-parse", "--short", "HEAD").strip()
    name = experiment_name(task, variant, seed, revision, changes)
    reference = experiment(ROOT, name)
    if not reference:
        chosen = [f"--set-param={key}={str(value).lower()}" for key, value in {"seed": seed, **changes}.items()]
        command = [sys.executable, "-m", "dvc", "exp", "run", "--temp", f"--name={name}", *chosen, f"evaluate@{task}"]
        if subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode:
            raise CastawayError(f"the experiment {name} failed; see the messages above")
        reference = experiment(ROOT, name)
    metrics = f"data/{task}/metrics"
    figures: dict[str, Any] = json.loads(run(ROOT, "git", "show", f"{reference}:{metrics}/evaluate.json"))["ppo"]
    asked = json.loads(run(ROOT, "git", "show", f"{reference}:{metrics}/{ledger.FILE}"))["asked"]
    ledger.add(ROOT / metrics / ledger.FILE, asked)
    ends = [f"{name}_{end}" for name in MEASURED[:3] for end in ("low", "high")]
    return {**{name: figures[name] for name in (*MEASURED, *ends)}, "revision": revision}


def experiment_name(
    task: str, variant: str, seed: int, revision: str, changes: Mapping[str, float | bool | str]
) -> str:
    """The name under which DVC keeps an experiment; another task or other parameters make another name."""
    digest = hashlib.sha256(json.dumps(changes, sort_keys=True).encode()).hexdigest()[:6]
    return f"{task}-{variant.replace(' ', '-')}-{seed}-{revision}-{digest}"


def experiment(root: Path, name: str) -> str:
    """The commit of the experiment of that name; empty if there is none."""
    references = run(root, "git", "for-each-ref", "--format=%(objectname) %(refname)", "refs/exps").splitlines()
    return next((line.split()[0] for line in references if line.endswith(f"/{name}")), "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
