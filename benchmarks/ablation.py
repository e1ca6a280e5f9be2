"""What each part of PPO is worth: the pipeline as DVC experiments, each without one part, with several seeds.

    python -m benchmarks.ablation 1 2 3   then: castaway results --write README.md

Each is a `dvc exp run --temp` of the last commit up to `evaluate`, so `dvc exp show` lists them, and MLflow has their
runs; what was run before comes from the cache. The figures of the policy `ppo` go to data/TASK/metrics/ablation.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.seeds import ROOT, environment, require_commit, run, status_of
from castaway.errors import CastawayError

VARIANTS: dict[str, dict[str, float]] = {
    "as shipped": {},
    "per-turn bandit": {"ppo.gamma_turn": 0.0},
    "without process reward": {"ppo.penalty_weight": 0.0},
    "without SFT passes": {"ppo.sft_interval": 1_000_000},
    "without reward model": {"ppo.reward_model_weight": 0.0},
}
"""What is changed in params.yaml. A bandit's turns earn what comes before the next one: nothing later counts."""
TRAITOR_EPISODES = 10
"""The traitor's games are not compared here."""
MEASURED = ("success_rate", "invalid_rate", "mean_return", "episodes")


def main(arguments: Sequence[str]) -> int:
    top = argparse.ArgumentParser("python -m benchmarks.ablation", description=(__doc__ or "").partition("\n")[0])
    top.add_argument("seeds", nargs="+", type=int, metavar="SEED")
    top.add_argument("--task", default="marooned")
    top.add_argument("--episodes", type=int, default=100, help="held-out episodes of each run")
    options = top.parse_args(arguments)

    def work() -> None:
        require_commit()
        evaluation = {"evaluate.episodes": options.episodes, "evaluate.traitor_episodes": TRAITOR_EPISODES}
        for seed in options.seeds:
            for variant, changes in VARIANTS.items():
                figures = measure(options.task, variant, seed, {**changes, **evaluation})
                save(ROOT, options.task, variant, seed, figures)

    return status_of(work)


def measure(task: str, variant: str, seed: int, changes: Mapping[str, float]) -> dict[str, float | str]:
    """Run one experiment, and read what the policy `ppo` did in it."""
    revision = run(ROOT, "git", "rev-parse", "--short", "HEAD").strip()
    name = f"{variant.replace(' ', '-')}-{seed}-{revision}"
    reference = experiment(ROOT, name)
    if not reference:
        settings = [f"--set-param={key}={value}" for key, value in {"seed": seed, **changes}.items()]
        command = [sys.executable, "-m", "dvc", "exp", "run", "--temp", f"--name={name}", *settings, f"evaluate@{task}"]
        if subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode:
            raise CastawayError(f"the experiment {name} failed, the lines above say why")
        reference = experiment(ROOT, name)
    path = f"data/{task}/metrics/evaluate.json"
    figures: dict[str, Any] = json.loads(run(ROOT, "git", "show", f"{reference}:{path}"))["ppo"]
    ends = [f"{name}_{end}" for name in MEASURED[:3] for end in ("low", "high")]
    return {**{name: figures[name] for name in (*MEASURED, *ends)}, "revision": revision}


def experiment(root: Path, name: str) -> str:
    """The commit of an experiment, or nothing if there is none of that name."""
    references = run(root, "git", "for-each-ref", "--format=%(objectname) %(refname)", "refs/exps").splitlines()
    return next((line.split()[0] for line in references if line.endswith(f"/{name}")), "")


def save(root: Path, task: str, variant: str, seed: int, figures: Mapping[str, float | str]) -> None:
    """Add the figures of one run to data/TASK/metrics/ablation.json."""
    path = root / "data" / task / "metrics" / "ablation.json"
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    known.setdefault(variant, {})[str(seed)] = dict(figures)
    ordered = {name: known[name] for name in VARIANTS if name in known}
    path.write_text(json.dumps(ordered, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
