"""The shipped pipeline with small parameters, in a clone of its own, and what tests do with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from ruamel.yaml import YAML

from flows.environment import FROM_THE_START, SILENT

ROOT = Path(__file__).parents[1]
TASKS = ["marooned", "openspiel", "strictbot"]
BASES = ["base@games", "base@answers"]
STAGES = ["dataset", "sft", "reward_model", "ppo", "correction_sft", "evaluate", "merge"]


def games_text(episodes: str) -> str:
    """What the base model `games` reads, with so many episodes by task."""
    return f"{{episodes: {episodes}, imagined: 0.4, whole_words: false, attention: drawn}}"


SMALL = {
    "threads": 1,
    "base.hidden_size": 32,
    "base.layers": 1,
    "base.heads": 2,
    "bases.games": games_text("{marooned: 3, openspiel: 3}"),
    "bases.answers": "{episodes: {strictbot: 3}, imagined: 0.7, whole_words: true, attention: drawn}",
    "dataset.episodes": 4,
    "dataset.demonstrations": 48,
    "dataset.pairs": 64,
    "dataset.held_out_pairs": 32,
    "ppo.steps": 2,
    "ppo.episodes_per_step": 2,
    "ppo.sft_interval": 1,
    "ppo.sft_minimum": 1,
    "ppo.checkpoint_interval": 1,
    "correction_sft.limit": 32,
    "evaluate.episodes": 4,
    "evaluate.traitor_episodes": 2,
    "evaluate.replays": 1,
}
OVERRIDES = """\
overrides:
  marooned: {dataset: {}, sft: {}, reward_model: {}, ppo: {}, correction_sft: {}, evaluate: {}}
  openspiel: {dataset: {episodes: 40}, sft: {}, reward_model: {}, ppo: {}, correction_sft: {}, evaluate: {}}
  strictbot: {dataset: {}, sft: {}, reward_model: {}, ppo: {}, correction_sft: {}, evaluate: {}}
"""
"""In the place of the shipped ones, which are as large as the tasks need."""


def make_clone(root: Path) -> None:
    """A copy of the tracked and new files, committed, with small parameters."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, names):
        if name == "dvc.lock" or name.startswith("data/") or not (ROOT / name).exists():
            continue
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes((ROOT / name).read_bytes())
    set_params(root, SMALL)
    path = root / "params.yaml"
    path.write_text(path.read_text("utf-8").partition("overrides:")[0] + OVERRIDES, "utf-8")
    run(root, "git", "init", "-q")
    run(root, "git", "add", "-A")
    run(root, "git", "commit", "-qm", "Miniature")


def set_params(root: Path, values: dict[str, object]) -> None:
    """Change leaves of params.yaml in place, as a person with an editor would."""
    lines = (root / "params.yaml").read_text("utf-8").split("\n")
    for key, value in values.items():
        *sections, leaf = key.split(".")
        section = ""
        for number, line in enumerate(lines):
            if re.match(r"[a-z_]+:", line):
                section = line.split(":")[0]
            if re.match(rf"{'  ' * len(sections)}{leaf}: ", line) and (not sections or section == sections[0]):
                lines[number] = f"{'  ' * len(sections)}{leaf}: {value}"
                break
        else:
            raise KeyError(key)
    (root / "params.yaml").write_text("\n".join(lines), "utf-8")


def environment() -> dict[str, str]:
    """Of the commands that are run in the clone."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, **SILENT, **FROM_THE_START, "PATH": path}


def run(root: Path, *command: str) -> str:
    """Run a command in the clone and return what it printed."""
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def every(*stages: str) -> list[str]:
    """These stages of all tasks that are built, in alphabetical order."""
    return sorted(f"{stage}@{task}" for stage in stages for task in TASKS)


def ran(output: str) -> list[str]:
    """The stages that a `dvc repro` executed."""
    return re.findall(r"Running stage '([^']+)'", output)


def hashes(root: Path) -> dict[str, str]:
    """The hashes of everything that was built, run records apart."""
    lock = YAML(typ="safe").load((root / "dvc.lock").read_text("utf-8"))
    outs = [out for stage in lock["stages"].values() for out in stage["outs"]]
    return {out["path"]: out["md5"] for out in outs if "/runs/" not in out["path"]}
