"""Measures what a hint in the prompts is worth: SFT, the reward model and PPO are trained without it.

    python -m benchmarks.hints 1 2 3 --task marooned --hint lurks    then: castaway results --write docs/results.md

The compact renderings tell a tiny model things that the rules would let it find out; docs/results.md lists them. Here
one of them says in every prompt what it says when there is nothing to tell, and everything else is as shipped: the base
model, which has read the hint in its own training, the data set, the parameters. The policies before and after PPO play
validation ids, so no held-out block is asked; `all shown` are the policies that the run has with that seed, on the same
ids. The last commit is cloned for each seed, with the DVC cache of this repository. The metrics are written to
data/RUN/metrics/hints.json. What is stopped goes on where it was, as long as the commit is the same.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.imitation import context_of
from benchmarks.seeds import ROOT, clone_with_seed, dvc, reproduce, require_commit, status_of
from castaway.errors import CastawayError
from castaway.metrics.figures import figures_of
from castaway.models.policy import load_adapter, load_model, using
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import seed_everything
from castaway.rl.actor_critic import ActorCritic
from castaway.rl.policies import ModelPolicy
from castaway.tasks.environment import HELD_OUT_START, Message
from castaway.tasks.registry import task_of
from castaway.tasks.task import Task
from flows.revision import revision
from stages import evaluate
from stages.context import Context

FIRST_ID = 945_000_000
"""The first validation id; the others follow. PPO is watched on others."""
SHOWN = "all shown"
"""The name under which the policies that read all hints are saved."""
TRAINED = ("sft", "reward_model", "ppo")
"""The stages that are run again without the hint."""
POLICIES = ("sft", "ppo")
MEASURED = ("success_rate", "success_rate_low", "success_rate_high", "invalid_rate")


@dataclass(frozen=True)
class Hint:
    """A part of a prompt that can be hidden."""

    pattern: str
    """A regular expression for the hint in a prompt."""
    hidden: str = ""
    """What stands there when there is nothing to tell; empty for Nim's heaps, which are joined to piles instead."""
    kind: str = ""
    """The kind of the episodes in which it occurs (`Task.kind_of`); empty for all."""


HINTS: dict[str, dict[str, Hint]] = {
    "marooned": {
        "next": Hint(r"\bnext \S+ \S+ \d+", "next nothing here 0"),
        "camp": Hint(r"\bcamp \S+ \d+", "camp here 0"),
        "bring": Hint(r"\bbring \S+ \d+", "bring nothing 0"),
        "beside": Hint(r"\bbeside \S+", "beside nobody"),
        "ready": Hint(r"\bready \S+", "ready nothing"),
        "suspect": Hint(r"\bsuspect \S+ \d+", "suspect nobody 0"),
        "lurks": Hint(r"\blurks \S+", "lurks nobody"),
        "blamed": Hint(r"\bblamed \d+", "blamed 0"),
    },
    "openspiel": {"heaps": Hint(r"(?<=piles )[a-z]\d+(?: [a-z]\d+)*", kind="nim")},
    "strictbot": {"told": Hint(r"\btold \w+", "told nowhere")},
}
"""For each task, its hints by name."""


def main(arguments: Sequence[str]) -> int:
    top = argparse.ArgumentParser("python -m benchmarks.hints", description=(__doc__ or "").partition("\n")[0])
    top.add_argument("seeds", nargs="+", type=int, metavar="SEED")
    top.add_argument("--task", default="marooned", help="a run of params.yaml whose prompts are compact")
    top.add_argument("--hint", action="append", help="a hint to hide, can be given several times; default: each")
    top.add_argument("--episodes", type=int, default=300, help="validation episodes of each policy")
    options = top.parse_args(arguments)

    def work() -> None:
        require_commit()
        chosen = hints_of(options.task, options.hint)
        for seed in options.seeds:
            clone = built("hints", options.task, seed)
            context = context_of(clone, options.task)
            save(ROOT, options.task, SHOWN, seed, measure(context, chosen[0], options.episodes))
            for name in chosen:
                save(ROOT, options.task, name, seed, trained_without(context, name, options.episodes))
            shutil.rmtree(clone)

    return status_of(work)


def hints_of(name: str, wanted: Sequence[str] | None) -> list[str]:
    """The names of the hints to hide in the prompts of a run.

    Raises:
        CastawayError: there is no such run or hint.
    """
    task = context_of(ROOT, name).params.tasks[name].task
    known = HINTS.get(task, {})
    chosen = list(wanted or known)
    unknown = [hint for hint in chosen if hint not in known]
    if unknown or not chosen:
        raise CastawayError(f"{task} has no hint {' '.join(unknown)}; it has {', '.join(known) or 'none'}")
    return chosen


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


def trained_without(context: Context, name: str, episodes: int) -> dict[str, Any]:
    """Train without a hint, and return the metrics of the policies before and after PPO."""
    root = context.root / "scratch" / "hints" / name
    done = root / "figures.json"
    if done.exists():
        return dict(json.loads(done.read_text("utf-8")))
    for stage, run_name in (("base", context.base), ("dataset", context.run)):
        link = root / "data" / run_name / stage
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(context.folder(stage))
    with hiding(hint_of(context, name)):
        for stage in TRAINED:
            own = replace(context, root=root, stage=stage, scratch=root / "scratch" / stage)
            if not (root / f"{stage}.json").exists():
                # What a stage that was stopped has left is not whole; its checkpoints lie in its scratch folder.
                shutil.rmtree(own.output, ignore_errors=True)
                for folder in (own.output, own.scratch):
                    folder.mkdir(parents=True, exist_ok=True)
                metrics = importlib.import_module(f"stages.{stage}").run(own)
                (root / f"{stage}.json").write_text(json.dumps(metrics, indent=2) + "\n", "utf-8")
        figures = measure(replace(context, root=root), name, episodes)
    done.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return figures


def measure(context: Context, hint: str, episodes: int) -> dict[str, Any]:
    """The metrics of the policies before and after PPO, on the validation ids in which the hint occurs."""
    task, kind = task_of(context.params, context.run), hint_of(context, hint).kind
    seed_everything(context.params.seed, context.params.threads)
    tokenizer = ChatTokenizer.load(context.folder("base"))
    games = [(task_id, task.evaluation_seats[0]) for task_id in ids(task, kind, episodes)]
    found: dict[str, Any] = {}
    sft = load_model(context.folder("base"), [context.folder("sft")], context.dtype)
    model = load_adapter(sft, context.folder("ppo"), trainable=False)
    with tqdm(total=len(POLICIES) * episodes, unit="episode", desc="hints") as bar:
        for name in POLICIES:
            rules, generator = evaluate.sampling_rules(context, tokenizer), evaluate.generator_of(context)
            policy = ModelPolicy(ActorCritic(model), tokenizer, rules, generator)
            with using(model, evaluate.POLICY_ADAPTERS[name]):
                figures = figures_of(task, evaluate.play(context, task, games, policy, bar.update))
            found[name] = {measured: figures[measured] for measured in MEASURED}
    return {"episodes": episodes, "kind": kind, "revision": revision(ROOT)[:7], **found}


def hint_of(context: Context, name: str) -> Hint:
    """The hint of that name in the prompts of a run."""
    return HINTS[context.params.tasks[context.run].task][name]


def ids(task: Task[Any], kind: str, episodes: int) -> list[int]:
    """The first validation ids of a kind of episode."""
    own = task.training_ids()
    first = FIRST_ID * len(own) // HELD_OUT_START
    found = (own[place] for place in count(first) if not kind or task.kind_of(own[place]) == kind)
    return list(islice(found, episodes))


@contextmanager
def hiding(hint: Hint) -> Iterator[None]:
    """Context in which no model reads the hint: it is hidden where messages become tokens."""
    shown = ChatTokenizer.prompt

    def prompt(self: ChatTokenizer, messages: Sequence[Message]) -> list[int]:
        return shown(self, [{**message, "content": hide(hint, message["content"])} for message in messages])

    ChatTokenizer.prompt = prompt  # type: ignore[method-assign]
    try:
        yield
    finally:
        ChatTokenizer.prompt = shown  # type: ignore[method-assign]


def hide(hint: Hint, text: str) -> str:
    """A prompt without the hint."""
    return re.sub(hint.pattern, hint.hidden or (lambda found: piles(found.group())), text)


def piles(heaps: str) -> str:
    """Nim's piles by their sizes: `a1 a4 b2` becomes `a5 b2`."""
    sizes: dict[str, int] = {}
    for heap in heaps.split():
        sizes[heap[0]] = sizes.get(heap[0], 0) + int(heap[1:])
    return " ".join(f"{pile}{size}" for pile, size in sizes.items())


def save(root: Path, name: str, hint: str, seed: int, figures: Mapping[str, Any]) -> None:
    """Add the metrics of one hint and seed to data/RUN/metrics/hints.json."""
    path = root / "data" / name / "metrics" / "hints.json"
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    known.setdefault(hint, {})[str(seed)] = dict(figures)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
