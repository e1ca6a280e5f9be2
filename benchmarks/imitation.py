"""Imitation of the expert: SFT on the expert's own moves, played on the ids that the run's evaluation asked.

    python -m benchmarks.imitation 1 2 3 --task marooned    then: castaway results --write docs/results.md

It answers whether reinforcement learning found more than copying does. SFT gets as many demonstrations as SFT and the
reward model's pairs hold together, all of them by the expert, none careless; nothing else differs from the stage `sft`.
The last commit is cloned and trained there with the DVC cache of this repository; each seed plays its own block, as the
runs of `benchmarks.seeds` do. The metrics are written to data/RUN/metrics/imitation.json, by seed, and the askings are
added to the run's ledger.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from tqdm import tqdm

from benchmarks.seeds import ROOT, clone_with_seed, reproduce, require_commit, run, status_of
from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.metrics import ledger
from castaway.metrics.figures import figures_of
from castaway.models.policy import load_model
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import seed_everything
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.policies import ModelPolicy
from castaway.tasks.environment import held_out_block
from castaway.tasks.registry import read_params, task_of
from stages import evaluate
from stages.context import Context, log_nothing, trace_nothing


def main(arguments: Sequence[str]) -> int:
    top = argparse.ArgumentParser("python -m benchmarks.imitation", description=(__doc__ or "").partition("\n")[0])
    top.add_argument("seeds", nargs="*", type=int, metavar="SEED", help="default: that of params.yaml")
    top.add_argument("--task", default="marooned", help="a run of params.yaml")
    options = top.parse_args(arguments)

    def work() -> None:
        require_commit()
        for seed in options.seeds or [context_of(ROOT, options.task).params.seed]:
            with tempfile.TemporaryDirectory(prefix="castaway-imitation-") as folder:
                figures = measure(options.task, seed, Path(folder) / "castaway")
            save(ROOT, options.task, seed, figures)

    return status_of(work)


def measure(name: str, seed: int, clone: Path) -> dict[str, Any]:
    """Train on the expert's moves in a new clone, play the held-out ids, and return the metrics.

    Args:
        name: of the run.
        seed: of params.yaml.
        clone: the folder to clone into.

    Raises:
        CastawayError: the training failed.
    """
    clone_with_seed(clone, seed)
    learn_from_expert(clone / "params.yaml", name)
    reproduce(clone, f"sft@{name}")
    made = json.loads((clone / "data" / name / "metrics" / "sft.json").read_text("utf-8"))["examples"]
    began = datetime.now(UTC)
    context = context_of(clone, name)
    revision = run(ROOT, "git", "rev-parse", "--short", "HEAD").strip()
    block = held_out_block(context.params.evaluate.block, context.params.seed)
    row = ledger.Asking(
        block=block,
        seed=context.params.seed,
        asked=began.isoformat(timespec="seconds"),
        revision=revision,
        stage_key=f"imitation {revision}",
        weights={},
    )
    figures = played(context)
    ledger.add(ROOT / "data" / name / "metrics" / ledger.FILE, [row])
    return {"demonstrations": made, "block": block, "revision": revision, **figures}


def learn_from_expert(path: Path, name: str) -> int:
    """Change the section `dataset` of a run in a params.yaml, and return the number of demonstrations.

    Args:
        path: the file.
        name: of the run.
    """
    old = read_params(path).for_run(name).dataset
    wanted = old.demonstrations + old.pairs
    # The expert's episodes can be shorter than those of careless players, so twice as many as the share asks for.
    episodes = math.ceil(2 * old.episodes * wanted / old.demonstrations)
    yaml = YAML()
    params = yaml.load(path.read_text("utf-8"))
    changed = {"demonstrations": wanted, "episodes": episodes, "carelessness": 0.0}
    block = params["tasks"][name]
    block["dataset"] = {**block.get("dataset", {}), **changed}
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(params, file)
    return wanted


def context_of(clone: Path, name: str) -> Context:
    """The context of an evaluation in the clone, which reports to nobody.

    Raises:
        CastawayError: params.yaml has no such run.
    """
    params: Params = read_params(clone / "params.yaml")
    if name not in params.tasks:
        raise CastawayError(f"params.yaml has no run {name}; it has {', '.join(params.tasks)}")
    return Context(
        clone,
        params.for_run(name),
        name,
        params.tasks[name].base,
        "evaluate",
        log_nothing,
        clone / "scratch" / "imitation",
        log_nothing,
        trace_nothing,
        "cpu",
    )


def played(context: Context) -> dict[str, Any]:
    """The metrics of the SFT policy of the clone on the held-out ids, as the stage `evaluate` computes them."""
    seed_everything(context.params.seed, context.params.threads)
    task = task_of(context.params, context.run)
    tasks = evaluate.held_out_tasks(context, task)
    tokenizer = ChatTokenizer.load(context.folder("base"))
    actor = ActorCritic(load_model(context.folder("base"), [context.folder("sft")], context.dtype))
    rules = evaluate.sampling_rules(context, tokenizer)
    policy = ModelPolicy(actor, tokenizer, rules, evaluate.generator_of(context))
    with tqdm(total=len(tasks), desc="imitation", unit="episode") as bar:
        return figures_of(task, evaluate.play(context, task, tasks, policy, bar.update))


def save(root: Path, name: str, seed: int, figures: dict[str, Any]) -> None:
    """Add the metrics of a seed to data/RUN/metrics/imitation.json."""
    path = root / "data" / name / "metrics" / "imitation.json"
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**known, str(seed): figures}, indent=2, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
