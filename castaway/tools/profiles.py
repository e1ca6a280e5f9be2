"""The profiles of the repository: what each would change and need, putting one in place, and building in a copy."""

import json
import shutil
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from castaway.config.errors import CastawayError
from castaway.config.mistakes import did_you_mean
from castaway.config.params import Params
from castaway.config.yaml_file import flatten
from castaway.metrics.markdown import table
from castaway.processes.environment import git
from castaway.processes.hardware import GIBIBYTE, visible_devices
from castaway.tasks.registry import read_params
from castaway.tools.memory import misfit, needs, sizes_of
from castaway.tools.plugins import link
from castaway.tools.summary import aligned

FOLDER = Path("profiles")
PARAMS = "params.yaml"
CODE = ("castaway", "flows", "stages")
"""Folders whose content DVC hashes: files that are no longer in the repository must not stay in the copy."""
VLLM = ".venv-vllm"
BUILT = ("dvc.lock", "data")  # outputs, in the repository as in the copy. They are not copied


def listing(root: Path) -> str:
    """A line for each profile: its name, its device, its runs, and the first sentence of its comment."""
    folder = root / FOLDER
    profiles = [(path, read_params(path)) for path in sorted(folder.glob("*.yaml"), key=lambda one: one.stem)]
    if not profiles:
        raise CastawayError(f"there are no profiles in {folder}; run in a clone of the repository, or give --root")
    rows = [(path.stem, params.device, ", ".join(params.tasks), about(path)) for path, params in profiles]
    return "\n".join(aligned([""] * 4, rows)[1:])


def about(path: Path) -> str:
    comment = takewhile(lambda line: line.startswith("#"), path.read_text("utf-8").splitlines())
    return " ".join(line.lstrip("# ") for line in comment).partition(". ")[0].rstrip(".")


def profile_path(name: str, root: Path) -> Path:
    """The file of a profile in `profiles/`, or `name` itself if that is the path of a file of parameters."""
    path = Path(name) if name.endswith(".yaml") else root / FOLDER / f"{name}.yaml"
    if not path.is_file():
        known = sorted(path.stem for path in (root / FOLDER).glob("*.yaml"))
        raise CastawayError(f"there is no profile or file of parameters {name!r}; {did_you_mean(path.stem, known)}")
    return path


def report(path: Path, root: Path) -> str:
    """What a profile changes in params.yaml, and the memory that its runs need."""
    params = read_params(path)
    changed = difference(read_params(root / PARAMS), params) or "nothing"
    parts = [f"Changes of params.yaml (old -> new):\n\n{changed}"]
    peaks = needs(params, root)
    if peaks:
        rows = [[need.address, _gibibytes(need.host), _gibibytes(need.device)] for need in peaks]
        needed = table(["stage", "memory", "GPU memory"], rows)
        parts.append(f"The stage of each run that needs most memory, estimated:\n\n{needed}")
    for one in dict.fromkeys(run.base for run in params.tasks.values()):
        if sizes_of(params, one, root) is None:
            parts.append(f"No estimate for runs of {one}: its size is known once it is built (`dvc repro base@{one}`).")
    if peaks:
        parts.append(misfit(peaks, visible_devices()) or "It fits into this host.")
    return "\n\n".join(parts)


def _gibibytes(size: float) -> str:
    return f"{size / GIBIBYTE:.1f} GiB" if size else "-"


def difference(old: Params, new: Params) -> str:
    """The keys that differ, `key: old -> new` a line, and the base models and runs that were added or are gone."""
    before, after = old.model_dump(), new.model_dump()
    lines = []
    for section in ("bases", "tasks"):
        for name in before[section].keys() ^ after[section].keys():
            lines.append(f"{section}.{name}: {'gone' if name in before[section] else 'added'}")
            for blocks in (before[section], after[section]):
                blocks.pop(name, None)
    flat = flatten(before), flatten(after)
    for key in {**flat[0], **flat[1]}:
        one, other = (_typed(side[key]) if key in side else "not set" for side in flat)
        if one != other:
            # The overrides of a run stand in its block.
            lines.append(f"{key.replace('.overrides.', '.')}: {one} -> {other}")
    return "\n".join(sorted(lines))


def _typed(value: Any) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def put_in_place(path: Path, root: Path, force: bool) -> str:
    """Replace params.yaml by a profile, byte for byte; returns what was done, and what to type next."""
    read_params(path)
    target = root / PARAMS
    if not force and target.is_file() and target.read_bytes() != path.read_bytes() and (why := _unsaved(root)):
        raise CastawayError(f"{target} {why}; commit it, or give --force to overwrite it")
    target.write_bytes(path.read_bytes())
    return f"{target} is now {path}; `castaway params` checks it, `dvc repro` builds its runs"


def _unsaved(root: Path) -> str:
    changes = git(root, "status", "--porcelain", "--ignored", "--", PARAMS)
    if changes is None:
        return "is in no git repository"
    return "has changes that are not committed" if changes else ""


# Building a profile in a copy of the repository ----------------------------------------------------------------------


def prepare(root: Path, place: Path, profile: Path) -> None:
    """Create or update the copy: the files in git, and the parameters."""
    copy_files(root, place)
    shutil.copyfile(profile, place / PARAMS)
    # Git ignores the folder of the copy. DVC would refuse to work there if it used git.
    (place / ".dvc" / "config.local").write_text("[core]\n    no_scm = true\n", "utf-8")
    link(place, read_params(place / PARAMS))
    # vLLM is not copied, nor installed again for each copy.
    if (root / VLLM).is_dir() and not (place / VLLM).exists():
        (place / VLLM).symlink_to((root / VLLM).resolve())


def check_fit(params: Params, place: Path, targets: Sequence[str]) -> None:
    """Raise CastawayError before anything is built if a stage needs more memory than this host or its GPU has."""
    runs = {target.partition("@")[2] for target in targets} or set(params.tasks)
    tasks = {run: block for run, block in params.tasks.items() if run in runs}
    if problem := misfit(needs(params.model_copy(update={"tasks": tasks}), place), visible_devices()):
        raise CastawayError(problem)


def copy_files(root: Path, place: Path) -> None:
    """Copy the files that git tracks, and new ones that it does not ignore, if they have changed."""
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed is None:
        raise CastawayError(f"git cannot list the files in {root}, which a profile copies; use a git clone")
    paths = filter(None, listed.split("\0"))
    names = {name for name in paths if Path(name).parts[0] not in BUILT and (root / name).is_file()}
    for name in names:
        source, target = root / name, place / name
        if not target.is_file() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    for path in [path for folder in CODE for path in (place / folder).rglob("*") if path.is_file()]:
        if path.relative_to(place).as_posix() not in names and path.suffix != ".pyc":
            path.unlink()
