"""Measures what is gained by training on PPO's corrections after PPO: with SFT and with DPO, at several learning rates.

    python -m benchmarks.corrections 1 --task marooned    then: castaway results --write docs/results.md

The stage `correction_sft` is run again on the policy that PPO made, with all corrections that PPO kept; `as shipped` is
with the parameters of the run, `no corrections` the policy itself. All play the same validation ids, so no held-out
block is asked. The last commit is cloned for each seed, with the DVC cache of this repository. The metrics are written
to data/RUN/metrics/corrections.json.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.imitation import context_of
from benchmarks.rows import add_row
from benchmarks.seeds import ROOT, require_commit, status_of
from benchmarks.variants import built, link, play_alone, validation_ids
from castaway.models.policy import load_adapter, load_model
from castaway.models.training import seed_everything
from castaway.tasks.registry import task_of
from flows.revision import revision
from stages import correction_sft
from stages.context import Context

NONE = "no corrections"
EVERY = 1_000_000
"""A limit that leaves out no correction that PPO kept."""
VARIANTS: dict[str, dict[str, Any]] = {
    "as shipped": {},
    **{
        f"{method}, learning rate {rate:g}": {"method": method, "learning_rate": rate, "limit": EVERY}
        for method in ("sft", "dpo")
        for rate in (1e-5, 1e-4, 1e-3)
    },
}
"""The changes of `correction_sft` in params.yaml by variant."""
ORDER = (NONE, *VARIANTS)
"""Of the rows."""


def main(arguments: Sequence[str]) -> int:
    top = argparse.ArgumentParser("python -m benchmarks.corrections", description=(__doc__ or "").partition("\n")[0])
    top.add_argument("seeds", nargs="+", type=int, metavar="SEED")
    top.add_argument("--task", default="marooned", help="a run of params.yaml")
    top.add_argument("--variant", action="append", choices=VARIANTS, help="can be given several times; default: each")
    top.add_argument("--episodes", type=int, default=600, help="validation episodes of each policy")
    options = top.parse_args(arguments)

    def work() -> None:
        require_commit()
        path = ROOT / "data" / options.task / "metrics" / "corrections.json"
        for seed in options.seeds:
            clone = built("corrections", options.task, seed)
            context = context_of(clone, options.task)
            figures = measure(context, context.folder("ppo"), options.episodes)
            add_row(path, NONE, seed, figures, ORDER)
            for name in options.variant or VARIANTS:
                trained, metrics = train(context, name, VARIANTS[name])
                figures = {**measure(trained, trained.output, options.episodes), **metrics}
                add_row(path, name, seed, figures, ORDER)
            shutil.rmtree(clone)

    return status_of(work)


def train(context: Context, name: str, changes: Mapping[str, Any]) -> tuple[Context, dict[str, Any]]:
    """Run the stage `correction_sft` with other parameters, in a folder of its own.

    Returns:
        The context in which it ran, and the number of corrections and steps.
    """
    root = context.root / "scratch" / "corrections" / name.replace(" ", "-").replace(",", "")
    link(context, root, ["base", "sft", "ppo"])
    section = context.params.correction_sft.model_copy(update=dict(changes))
    params = context.params.model_copy(update={"correction_sft": section})
    own = replace(context, root=root, params=params, stage="correction_sft", scratch=root / "scratch")
    for folder in (own.output, own.scratch):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    metrics = correction_sft.run(own)
    return own, {key: metrics[key] for key in ("corrections", "steps")}


def measure(context: Context, adapter: Path, episodes: int) -> dict[str, Any]:
    """The metrics of SFT's model with an adapter, on validation ids."""
    task = task_of(context.params, context.run)
    seed_everything(context.params.seed, context.params.threads)
    games = [(task_id, task.evaluation_seats[0]) for task_id in validation_ids(task, episodes)]
    sft = load_model(context.folder("base"), [context.folder("sft")], context.dtype)
    figures = play_alone(context, load_adapter(sft, adapter, trainable=False), games, adapter.parents[2].name)
    return {"episodes": episodes, "revision": revision(ROOT)[:7], **figures}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
