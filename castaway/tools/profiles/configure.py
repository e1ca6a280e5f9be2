"""Asks for accelerator, model, tasks, teacher and budget, line by line, and writes a profile that fits them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from castaway.tools.profiles.files import FOLDER, PARAMS

if TYPE_CHECKING:
    from castaway.tools.profiles.stages import Need

ACCELERATORS = ("cpu", "cuda", "mi300x")
BUDGETED = {
    "sft": (("sft", "tokens_per_pass"),),
    "reward_model": (("reward_model", "tokens_per_pass"),),
    "ppo": (("ppo", "tokens_per_pass"), ("ppo", "sampling_tokens_per_pass")),
    "correction_sft": (("correction_sft", "tokens_per_pass"),),
    "evaluate": (("ppo", "sampling_tokens_per_pass"),),
}
"""By stage, what decides its memory: section and key."""
FEWEST_TOKENS, FEWEST_STEPS = 256, 2
"""Neither the tokens of a pass nor `ppo.steps` are lowered below."""


@dataclass(frozen=True)
class Questions:
    """Asks on a terminal or a pipe; an empty line takes the default."""

    read: Callable[[], str]
    """The next line, with its line break; empty at the end of the input."""
    say: Callable[[str], None]

    def ask(self, question: str, default: str) -> str:
        """The answer.

        Raises:
            CastawayError: the input has ended.
        """
        self.say(f"{question} [{default}]")
        line = self.read()
        if not line:
            raise CastawayError(f"the input ended at the question {question!r}; nothing was written")
        return line.strip() or default

    def choose(self, question: str, known: tuple[str, ...], default: str) -> str:
        """The answer, one of those that are known.

        Raises:
            CastawayError: it is not, or the input has ended.
        """
        answer = self.ask(f"{question} ({', '.join(known)})", default)
        if answer not in known:
            raise CastawayError(f"{question} is {answer!r}, expected one of {', '.join(known)}; nothing was written")
        return answer

    def number(self, question: str, default: float) -> float:
        """The answer, a number above 0.

        Raises:
            CastawayError: it is none, or the input has ended.
        """
        answer = self.ask(question, f"{default:g}")
        try:
            number = float(answer)
        except ValueError:
            number = 0.0
        if not number > 0:
            raise CastawayError(f"{question} is {answer!r}, expected a number above 0; nothing was written")
        return number


def ask(root: Path, force: bool, read: Callable[[], str], say: Callable[[str], None]) -> str:
    """Ask all questions, and write `profiles/NAME.yaml`; returns what to type next.

    Args:
        root: the repository.
        force: whether a profile of that name may be overwritten.
        read: gives the next line of the input.
        say: shows a line.

    Raises:
        CastawayError: an answer cannot be used, nothing fits into the memory, or the file exists.
    """
    from castaway.tools.profiles.host import GIGABYTE, device_memory, host_memory

    questions, templates = Questions(read, say), _templates(root)
    device = questions.choose("accelerator", ACCELERATORS, "cuda" if device_memory() else "cpu")
    fitting = tuple(name for name, one in templates.items() if (one["device"] == "cpu") == (device == "cpu"))
    model = questions.choose("model", tuple(templates), fitting[0])
    template = deepcopy(templates[model])
    offered = _runs(templates)
    asked = questions.ask(f"tasks, with commas ({', '.join(offered)})", ", ".join(template["tasks"]))
    teacher = questions.ask("teacher: rules, or the URL of a server (http://HOST:PORT/v1)", template["teacher"]["kind"])
    memory = questions.number("memory in GB", (device_memory() or host_memory()) / GIGABYTE)
    hours = questions.number("hours", 24)
    name = questions.ask("name of the profile", f"{model}-{device}")
    path = root / FOLDER / f"{name}.yaml"
    if path.exists() and not force:
        raise CastawayError(f"{path} exists; choose another name, or give --force to overwrite it")

    template["device"] = device
    about = f"{model} on {device}, made by `castaway configure` from profiles/{model}.yaml. Nobody has run it."
    _choose_tasks(template, offered, [one.strip() for one in asked.split(",") if one.strip()])
    _choose_teacher(template, teacher)
    _write(path, template, about)
    try:
        told = _fit(path, template, root, memory * GIGABYTE, 3600 * hours)
    except CastawayError:
        path.unlink()
        raise
    return f"{told}\n{path} is written; `castaway profile {name}` shows it, with --write it replaces {PARAMS}"


def _templates(root: Path) -> dict[str, Any]:
    """The profiles of models that exist already, for their settings; comments are kept."""
    found: dict[str, Any] = {}
    for path in sorted((root / FOLDER).glob("*.yaml")):
        params = read_params(path)
        if not any(block.tasks for block in params.bases.values()) and len(params.bases) == 1:
            found[path.stem] = YAML().load(path.read_text("utf-8"))
    if not found:
        raise CastawayError(f"there are no profiles of models in {root / FOLDER}; run in a clone of the repository")
    return found


def _runs(templates: dict[str, Any]) -> dict[str, Any]:
    """The runs that some profile has, by name."""
    return {name: block for one in templates.values() for name, block in sorted(one["tasks"].items())}


def _choose_tasks(profile: Any, offered: dict[str, Any], names: list[str]) -> None:
    """Leave only the named runs; those that this profile lacks come from another.

    Raises:
        CastawayError: no profile has a run of that name, or none is named.
    """
    unknown = [name for name in names if name not in offered]
    if unknown or not names:
        raise CastawayError(f"tasks is {', '.join(unknown) or 'empty'!r}, expected some of {', '.join(offered)}")
    runs, (base,) = profile["tasks"], profile["bases"]
    for name in [name for name in runs if name not in names]:
        del runs[name]
    for name in names:
        if name not in runs:
            runs[name] = {**deepcopy(offered[name]), "base": base}


def _choose_teacher(profile: Any, answer: str) -> None:
    section = profile["teacher"]
    if "://" in answer:
        section["kind"], section["url"] = "openai", answer
    elif answer in ("rules", "openai"):
        section["kind"] = answer
    else:
        raise CastawayError(f"teacher is {answer!r}, expected rules or a URL such as http://127.0.0.1:8000/v1")


def _write(path: Path, profile: Any, about: str = "") -> Params:
    """Write the file, and read it as parameters."""
    yaml = YAML()
    yaml.width = 120
    if about:
        profile.yaml_set_start_comment(about)
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(profile, file)
    return read_params(path)


def _memory(need: Need, device: str) -> float:
    """What a stage takes of the memory that was asked for: the processor's, or that of the GPU."""
    return need.host if device == "cpu" else need.device


def _lower(profile: Any, stage: str, run: str) -> bool:
    """Halve the passes of a stage, in the block of its run where that has its own; False if they are small already."""
    lowered = False
    for section, key in BUDGETED.get(stage, ()):
        own = profile["tasks"][run].get(section, {})
        block = own if key in own else profile[section]
        if block[key] > FEWEST_TOKENS:
            block[key] //= 2
            lowered = True
    return lowered


def _fit(path: Path, profile: Any, root: Path, memory: float, seconds: float) -> str:
    """Make passes smaller until all stages fit into the memory, and `ppo.steps` until PPO fits into the time.

    Returns:
        What the stages need.

    Raises:
        CastawayError: the smallest passes do not fit either.
    """
    from castaway.tools.profiles.host import GIGABYTE
    from castaway.tools.profiles.stages import needs
    from castaway.tools.profiles.workload import workload_of

    params = read_params(path)
    loads = {run: workload_of(params, run, root) for run in params.tasks}
    while True:
        found = needs(read_params(path), root, loads)
        if not found:
            return "Nothing is known of this model's size: check memory and time yourself."
        needed, largest = max(((_memory(need, params.device), need) for need in found), key=lambda one: one[0])
        if needed <= memory:
            break
        if not _lower(profile, *largest.address.split("@")):
            raise CastawayError(
                f"{largest.address} needs about {needed / GIGABYTE:.1f} GB even with small passes, more than "
                f"{memory / GIGABYTE:.1f} GB; set gradient_checkpointing or choose a smaller model"
            )
        _write(path, profile)
    spent = sum(need.seconds for need in found)
    if spent > seconds:
        training = sum(need.seconds for need in found if need.address.startswith("ppo@"))
        share = max(0.0, 1 - (spent - seconds) / max(training, 1.0))
        profile["ppo"]["steps"] = max(FEWEST_STEPS, int(profile["ppo"]["steps"] * share))
        found = needs(_write(path, profile), root, loads)
    hours = sum(need.seconds for need in found) / 3600
    kept = "" if 3600 * hours <= seconds else ", more than the budget: take fewer tasks, or lower dataset and evaluate"
    return f"At most {needed / GIGABYTE:.1f} GB ({largest.address}), very roughly {hours:.1f} hours in all{kept}."
