"""Asks for accelerator, model, tasks, teacher and memory, line by line, and writes a profile that fits them."""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import typer
from ruamel.yaml import YAML

from castaway.config.errors import CastawayError
from castaway.processes.hardware import GIBIBYTE, KINDS, host_memory, visible_devices
from castaway.tasks.registry import read_params
from castaway.tools.memory import needs
from castaway.tools.profiles import FOLDER, PARAMS

FEWEST_TOKENS = 256  # the tokens of a pass are not lowered below


def configure(root: Path, force: bool) -> str:
    """Ask all questions, and write `profiles/NAME.yaml`; returns what to type next."""
    templates, devices = _templates(root), visible_devices()
    own = next((one.kind for one in devices[:1] if one.kind in KINDS), "cpu")
    device = _choose("accelerator", KINDS, own)
    fitting = [name for name, one in templates.items() if (one["device"] == "cpu") == (device == "cpu")]
    model = _choose("model", list(templates), fitting[0])
    profile = deepcopy(templates[model])
    runs = {name: block for one in templates.values() for name, block in sorted(one["tasks"].items())}
    tasks = typer.prompt(f"tasks, with commas ({', '.join(runs)})", ", ".join(profile["tasks"]))
    teacher = typer.prompt("teacher: rules, or the URL of a server (http://HOST:PORT/v1)", profile["teacher"]["kind"])
    there = devices[0].memory if devices and device != "cpu" else host_memory()
    memory = typer.prompt("memory in GiB", round(there / GIBIBYTE, 1), type=float)
    name = typer.prompt("name of the profile", f"{model}-{device}")
    path = root / FOLDER / f"{name}.yaml"
    if path.exists() and not force:
        raise CastawayError(f"{path} exists; choose another name, or give --force to overwrite it")

    profile["device"] = device
    _choose_tasks(profile, runs, [one.strip() for one in tasks.split(",") if one.strip()])
    _choose_teacher(profile, teacher)
    profile.yaml_set_start_comment(
        f"{model} on {device}, made by `castaway configure` from profiles/{model}.yaml. Nobody has run it."
    )
    try:
        estimate = _fit(path, profile, root, memory * GIBIBYTE)
    except CastawayError:
        path.unlink()
        raise
    return f"{estimate}\n{path} is written; `castaway profile {name}` shows it, with --write it replaces {PARAMS}"


def _choose(question: str, known: Sequence[str], default: str) -> str:
    answer: str = typer.prompt(f"{question} ({', '.join(known)})", default)
    if answer not in known:
        raise CastawayError(f"{question} is {answer!r}, expected one of {', '.join(known)}; nothing was written")
    return answer


def _templates(root: Path) -> dict[str, Any]:
    """The profiles of models that exist already, for their settings; comments are kept."""
    templates: dict[str, Any] = {}
    for path in sorted((root / FOLDER).glob("*.yaml")):
        params = read_params(path)
        if not any(block.tasks for block in params.bases.values()) and len(params.bases) == 1:
            templates[path.stem] = YAML().load(path.read_text("utf-8"))
    if not templates:
        raise CastawayError(f"there are no profiles of models in {root / FOLDER}; run in a clone of the repository")
    return templates


def _choose_tasks(profile: Any, known: dict[str, Any], names: list[str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise CastawayError(f"tasks is {', '.join(unknown) or 'empty'!r}, expected some of {', '.join(known)}")
    runs, (base,) = profile["tasks"], profile["bases"]
    for name in [name for name in runs if name not in names]:
        del runs[name]
    for name in names:
        if name not in runs:
            runs[name] = {**deepcopy(known[name]), "base": base}


def _choose_teacher(profile: Any, answer: str) -> None:
    section = profile["teacher"]
    if "://" in answer:
        section["kind"], section["url"] = "openai", answer
    elif answer in ("rules", "openai"):
        section["kind"] = answer
    else:
        raise CastawayError(f"teacher is {answer!r}, expected rules or a URL such as http://127.0.0.1:8000/v1")


def _fit(path: Path, profile: Any, root: Path, memory: float) -> str:
    """Write the profile with passes so small that all stages fit into the memory; returns what the largest needs."""
    yaml = YAML()
    yaml.width = 120
    while True:
        yaml.dump(profile, path)
        peaks = needs(read_params(path), root)
        if not peaks:
            return "Nothing is known of this model's size: check the memory yourself."
        needed, address = max((need.device or need.host, need.address) for need in peaks)
        if needed <= memory:
            return f"At most about {needed / GIBIBYTE:.1f} GiB ({address}), by estimate."
        if not _lower(profile, *address.split("@")):
            raise CastawayError(
                f"{address} needs about {needed / GIBIBYTE:.1f} GiB even with small passes, more than "
                f"{memory / GIBIBYTE:.1f} GiB; set gradient_checkpointing or choose a smaller model"
            )


def _lower(profile: Any, stage: str, run: str) -> bool:
    """Halve the passes of a stage, in the block of its run where that has its own; False if they are small already."""
    lowered = False
    own, common = profile["tasks"][run].get(stage, {}), profile[stage]
    for mine, all_runs in ((own, common), (own.get("rollout", {}), common.get("rollout", {}))):
        block = mine if "tokens_per_pass" in mine else all_runs
        if block.get("tokens_per_pass", 0) > FEWEST_TOKENS:
            block["tokens_per_pass"] //= 2
            lowered = True
    return lowered
