"""The profiles of the repository: which there are, what one would change and need, and putting one in place."""

from __future__ import annotations

import subprocess
from pathlib import Path

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.metrics.markdown import table
from castaway.tasks.registry import read_params
from castaway.tools.profiles.difference import difference

FOLDER = Path("profiles")
PARAMS = "params.yaml"
NEXT = """\
What to type next:

  castaway params                    # is it right?
  python -m flows closure --write    # dvc.yaml gets the stages of these runs
  dvc repro                          # builds them"""


def listing(root: Path) -> str:
    """A line for each profile: its name, its device, its runs, and the first sentence of its comment.

    Raises:
        CastawayError: there are none, or one is invalid.
    """
    paths = sorted((root / FOLDER).glob("*.yaml"), key=lambda path: path.stem)
    if not paths:
        raise CastawayError(
            f"there are no profiles in {root / FOLDER}; run in a clone of the repository, or give --root"
        )
    rows = []
    for path in paths:
        params = read_params(path)
        rows.append((path.stem, params.device, ", ".join(params.tasks), about(path)))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join("  ".join([*(f"{row[i]:<{widths[i]}}" for i in range(3)), row[3]]) for row in rows)


def about(path: Path) -> str:
    """The first sentence of the comment at the beginning of a profile."""
    lines = []
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
    return " ".join(lines).partition(". ")[0].rstrip(".")


def profile_path(name: str, root: Path) -> Path:
    """The file of a profile.

    Args:
        name: of a file in `profiles/` without its ending, or the path of a complete file of parameters.
        root: the repository.

    Raises:
        CastawayError: there is no such file.
    """
    place = Path(name) if name.endswith(".yaml") else FOLDER / f"{name}.yaml"
    path = place if name.endswith(".yaml") else root / place
    if not path.is_file():
        known = ", ".join(sorted(path.stem for path in (root / FOLDER).glob("*.yaml"))) or "none"
        raise CastawayError(f"{place} does not exist; name a profile ({known}) or a complete file of parameters")
    return path


def report(path: Path, root: Path) -> str:
    """What a profile changes in params.yaml, and what its stages need."""
    from castaway.tools.profiles.host import misfit
    from castaway.tools.profiles.stages import needs

    params = read_params(path)
    changed = difference(read_params(root / PARAMS), params) or "nothing"
    found = needs(params, root)
    rows = [[need.address, _size(need.host), _size(need.device), _time(*need.range)] for need in found]
    told = [f"Changes of params.yaml (old -> new):\n\n{changed}"]
    if rows:
        told.append(f"Estimates:\n\n{table(['stage', 'memory', 'GPU memory', 'time, roughly'], rows)}")
    told += [_unknown(name) for name in unknown_bases(params, root)]
    if found:
        told.append(misfit(found) or "It fits into this host.")
    return "\n\n".join(told)


def unknown_bases(params: Params, root: Path) -> list[str]:
    """The base models of runs that nothing can be estimated for."""
    from castaway.tools.profiles.architecture import architecture_of

    used = dict.fromkeys(run.base for run in params.tasks.values())
    return [name for name in used if architecture_of(params, name, root) is None]


def _unknown(name: str) -> str:
    return f"No estimate for runs of {name}: its size is known once it is built (`dvc repro base@{name}`)."


def put_in_place(path: Path, root: Path, force: bool) -> str:
    """Replace params.yaml by a profile, byte for byte; returns what to type next.

    Raises:
        CastawayError: the profile is invalid, or params.yaml has changes that are not in git and `force` is false.
    """
    read_params(path)
    target = root / PARAMS
    if not force and target.is_file() and target.read_bytes() != path.read_bytes() and (why := _unsaved(root)):
        raise CastawayError(f"{target} {why}; commit it, or give --force to overwrite it")
    target.write_bytes(path.read_bytes())
    return f"{target} is now {path}\n\n{NEXT}"


def _unsaved(root: Path) -> str:
    """Why params.yaml could not be had back from git; empty if it could."""
    command = ["git", "status", "--porcelain", "--ignored", "--", PARAMS]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "is in no git repository"
    return "has changes that are not committed" if done.stdout.strip() else ""


def _size(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size else "-"


def _time(low: float, high: float) -> str:
    """A range of seconds, in a unit that fits."""
    unit, name = next((one for one in ((3600.0, "h"), (60.0, "min")) if low >= one[0]), (1.0, "s"))
    return f"{low / unit:.0f} to {high / unit:.0f} {name}"
