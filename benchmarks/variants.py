"""What benchmarks share that train a run in several ways: a clone, links to what is kept, play on validation ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.seeds import ROOT, clone_with_seed, dvc, reproduce
from castaway.metrics.figures import figures_of
from castaway.models.tokens import ChatTokenizer
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.policies import ModelPolicy
from castaway.tasks.environment import HELD_OUT_START
from castaway.tasks.registry import task_of
from castaway.tasks.task import Task
from flows.revision import revision
from stages import evaluate
from stages.context import Context

FIRST_ID = 945_000_000
"""The first validation id; the others follow. PPO is watched on others."""
MEASURED = ("success_rate", "success_rate_low", "success_rate_high", "invalid_rate")
"""The metrics that are saved."""


def built(purpose: str, name: str, seed: int) -> Path:
    """A clone of the last commit, in which the run is built with the seed up to PPO; from the cache if it can be.

    Args:
        purpose: the folder in scratch/ for the clone.
        name: of the run.
        seed: of all stages.

    Raises:
        CastawayError: the build failed.
    """
    clone = ROOT / "scratch" / purpose / f"{name}-{seed}-{revision(ROOT)[:7]}"
    clone_with_seed(clone, seed)
    # What is built here is up to date in the clone, too, if the seed is that of params.yaml.
    dvc(clone, "checkout", "--allow-missing")
    reproduce(clone, f"ppo@{name}")
    return clone


def link(context: Context, root: Path, stages: Iterable[str]) -> None:
    """Show the outputs of these stages in the folders of another root, in which later stages are to be run."""
    other = replace(context, root=root)
    for stage in stages:
        shown = other.folder(stage)
        shown.parent.mkdir(parents=True, exist_ok=True)
        if not shown.is_symlink():
            shown.symlink_to(context.folder(stage))


def validation_ids(task: Task[Any], episodes: int, kind: str = "") -> list[int]:
    """The first validation ids of a kind of episode (`Task.kind_of`), or of all."""
    own = task.training_ids()
    first = FIRST_ID * len(own) // HELD_OUT_START
    found = (own[place] for place in count(first) if not kind or task.kind_of(own[place]) == kind)
    return list(islice(found, episodes))


def play_alone(context: Context, model: Any, games: Sequence[tuple[int, str]], name: str) -> dict[str, Any]:
    """The metrics of a policy that plays episodes, ids with seats, as an evaluation does; `name` is for the screen."""
    task, tokenizer = task_of(context.params, context.run), ChatTokenizer.load(context.folder("base"))
    rules, generator = evaluate.sampling_rules(context, tokenizer), evaluate.generator_of(context)
    policy = ModelPolicy(ActorCritic(model), tokenizer, rules, generator)
    with tqdm(total=len(games), unit="episode", desc=name) as bar:
        figures = figures_of(task, evaluate.play(context, task, games, policy, bar.update))
    return {measured: figures[measured] for measured in MEASURED}
