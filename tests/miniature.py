"""The shipped pipeline with small parameters, in a clone of its own, and what tests do with it."""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from castaway.config.params import STAGE_SECTIONS
from castaway.processes.environment import FROM_THE_START, SILENT

ROOT = Path(__file__).parents[1]
TASKS = ["marooned", "openspiel", "strictbot"]
BASES = ["base@island", "base@games", "base@answers"]
STAGES = ["dataset", "sft", "reward_model", "ppo", "correction_sft", "evaluate", "merge"]
RECORDED = Path(__file__).with_name("hashes.json")
"""The hashes of the small build, by maker of processors."""

GIVEN: dict[str, Any] = {
    "code": "castaway/bases/sources.py",
    "dtype": "float32",
    "gradient_checkpointing": False,
    "instructions": "avx2",
}
"""What every block of a base model that is not trained here has."""

SMALL: dict[str, object] = {
    "threads": 1,
    "base.hidden_size": 32,
    "base.layers": 1,
    "base.heads": 2,
    "bases.island.text.marooned.episodes": 3,
    "bases.island.attention": "drawn",
    "bases.games.text.openspiel.episodes": 3,
    "bases.games.attention": "drawn",
    "bases.answers.text.strictbot.episodes": 3,
    "bases.answers.attention": "drawn",
    "dataset.episodes": 4,
    "dataset.demonstrations": 48,
    "dataset.pairs": 64,
    "dataset.held_out_pairs": 32,
    "ppo.rollout.max_new_tokens": 24,
    "ppo.steps": 2,
    "ppo.rollout.episodes_per_step": 2,
    "ppo.corrections.sft_interval": 1,
    "ppo.corrections.sft_minimum": 1,
    "ppo.checkpoint_interval": 1,
    "ppo.validation.episodes": 2,
    "correction_sft.limit": 32,
    "evaluate.episodes": 4,
    "evaluate.further_episodes": 2,
    "evaluate.replays": 1,
}


def copy_tree(root: Path) -> None:
    """Copy the tracked and new files, without what was built."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if name == "dvc.lock" or name.startswith("data/") or not (ROOT / name).exists():
            continue
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes((ROOT / name).read_bytes())


def make_clone(root: Path) -> None:
    """A copy of the tracked and new files, committed, with small parameters."""
    copy_tree(root)
    shrink(root)
    commit(root)


def commit(root: Path, message: str = "Everything") -> None:
    """Commit all that is in a folder, which is a repository from then on."""
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", message]):
        run(root, "git", *command)


def shrink(root: Path) -> None:
    """Give the params.yaml in a folder small parameters, of which runs set next to nothing differently."""
    with edited(root / "params.yaml") as params:
        for block in params["tasks"].values():
            block.update({section: {} for section in STAGE_SECTIONS})
        params["tasks"]["openspiel"]["dataset"] = {"episodes": 40}
    set_params(root, SMALL)


@contextmanager
def edited(path: Path) -> Iterator[Any]:
    """A YAML file as it can be changed, written back at the end, comments and anchors included."""
    yaml = YAML()
    yaml.width = 4096
    content = yaml.load(path.read_text("utf-8"))
    yield content
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(content, file)


def set_params(root: Path, values: Mapping[str, object]) -> None:
    """Change keys of params.yaml that are there."""
    with edited(root / "params.yaml") as params:
        for key, value in values.items():
            *sections, leaf = key.split(".")
            section = params
            for name in sections:
                section = section[name]
            assert leaf in section, key
            section[leaf] = value


def environment(**variables: str) -> dict[str, str]:
    """Of the commands that are run in the clone."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, **SILENT, **FROM_THE_START, "PATH": path, **variables}


def run(root: Path, *command: str, **variables: str) -> str:
    """Run a command in the clone and return what it printed."""
    done = subprocess.run(command, cwd=root, env=environment(**variables), capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def make_ppo_clone(root: Path, cache: Path, **ppo: object) -> None:
    """The pipeline in miniature, up to what the PPO of MAROONED needs; with the same DVC cache, it is built once."""
    make_clone(root)
    set_params(root, {"bases.island.text.marooned.episodes": 1, "sft.epochs": 0.5})
    set_params(root, {f"ppo.{key}": value for key, value in ppo.items()})
    run(root, "dvc", "config", "--local", "cache.dir", str(cache))
    run(root, "dvc", "repro", "reward_model@marooned")


def ppo_digest(root: Path) -> dict[str, str]:
    """The hashes of all that the PPO of MAROONED leaves, but for its run record, also published."""
    left = [*(root / "data/marooned/ppo").iterdir(), *(root / "data/marooned").glob("*/ppo.json*")]
    paths = sorted(path for path in left if path.parent.name not in ("runs", "published"))
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


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


def processor_maker() -> str:
    """The maker, as the kernel says it: the matrix library rounds otherwise on another maker's processors."""
    found = re.search(r"vendor_id\s*: (\w+)", Path("/proc/cpuinfo").read_text("utf-8"))
    return found.group(1) if found else "unknown"
