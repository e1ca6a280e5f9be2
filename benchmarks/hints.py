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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.imitation import context_of
from benchmarks.rows import add_row
from benchmarks.seeds import ROOT, require_commit, status_of
from benchmarks.variants import built, link, play_alone, validation_ids
from castaway.errors import CastawayError
from castaway.models.policy import load_adapter, load_model, using
from castaway.models.tokens import ChatTokenizer
from castaway.models.training import seed_everything
from castaway.tasks.environment import Message
from castaway.tasks.registry import task_of
from flows.revision import revision
from stages import evaluate
from stages.context import Context

SHOWN = "all shown"
"""The name under which the policies that read all hints are saved."""
TRAINED = ("sft", "reward_model", "ppo")
"""The stages that are run again without the hint."""
POLICIES = ("sft", "ppo")


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
        path = ROOT / "data" / options.task / "metrics" / "hints.json"
        chosen = hints_of(options.task, options.hint)
        for seed in options.seeds:
            clone = built("hints", options.task, seed)
            context = context_of(clone, options.task)
            add_row(path, SHOWN, seed, measure(context, chosen[0], options.episodes))
            for name in chosen:
                add_row(path, name, seed, trained_without(context, name, options.episodes))
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


def trained_without(context: Context, name: str, episodes: int) -> dict[str, Any]:
    """Train without a hint, and return the metrics of the policies before and after PPO."""
    root = context.root / "scratch" / "hints" / name
    done = root / "figures.json"
    if done.exists():
        return dict(json.loads(done.read_text("utf-8")))
    link(context, root, ["base", "dataset"])
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
    games = [(task_id, task.evaluation_seats[0]) for task_id in validation_ids(task, episodes, kind)]
    found: dict[str, Any] = {}
    sft = load_model(context.folder("base"), [context.folder("sft")], context.dtype)
    model = load_adapter(sft, context.folder("ppo"), trainable=False)
    for name in POLICIES:
        with using(model, evaluate.POLICY_ADAPTERS[name]):
            found[name] = play_alone(context, model, games, name)
    return {"episodes": episodes, "kind": kind, "revision": revision(ROOT)[:7], **found}


def hint_of(context: Context, name: str) -> Hint:
    """The hint of that name in the prompts of a run."""
    return HINTS[context.params.tasks[context.run].task][name]


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
