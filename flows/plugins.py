"""Where the code of a task is: inside this repository, or in a package from outside that is installed beside it.

DVC watches files by their paths, and where a package is installed differs from machine to machine. So a package from
outside gets a link in `.plugins/`, which git ignores, and dvc.yaml names the link: a changed line in the package makes
the stages of its own runs stale, wherever it is installed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

from castaway.config.params import Params
from castaway.errors import CastawayError
from castaway.tasks.registry import entry_point

FOLDER = Path(".plugins")
SHIPPED = Path("castaway/envs")


@dataclass(frozen=True)
class TaskCode:
    """The code of a task."""

    task: str
    distribution: str
    """The installed package that offers it."""
    version: str
    path: Path
    """From the root of the repository, as dvc.yaml names it: a folder, or a single module."""
    target: Path | None
    """What the link leads to; None for a task of this repository."""


def task_code(task: str) -> TaskCode:
    """Where the code of an installed task is.

    Raises:
        CastawayError: there is no such task, or its package cannot be found.
    """
    point = entry_point(task)
    module = point.value.partition(":")[0]
    distribution = point.dist.name if point.dist else "unknown"
    version = point.dist.version if point.dist else "unknown"
    top = module.partition(".")[0]
    if top == "castaway":
        return TaskCode(task, distribution, version, Path(*module.split(".")[:-1]), None)
    target = _place(point, top)
    path = FOLDER / (task if target.is_dir() else f"{task}.py")
    return TaskCode(task, distribution, version, path, target)


def _place(point: EntryPoint, package: str) -> Path:
    """The folder of a package, or the file of a module that is alone."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not (spec.submodule_search_locations or spec.origin):
        raise CastawayError(f"the package {package}, which offers the task {point.name!r}, cannot be found; install it")
    folders = list(spec.submodule_search_locations or ())
    return Path(folders[0] if folders else str(spec.origin)).resolve()


def tasks_in_use(params: Params) -> list[str]:
    """The tasks of all runs, and those that base models read."""
    read = [task for base in params.bases.values() for task in base.text]
    return sorted({*(run.task for run in params.tasks.values()), *read})


def link(root: Path, tasks: Iterable[str]) -> None:
    """Make the links of the tasks from outside, or mend them.

    Raises:
        CastawayError: something else stands where a link has to be.
    """
    for task in tasks:
        code = task_code(task)
        if code.target is None:
            continue
        place = root / code.path
        if place.is_symlink() and place.resolve() == code.target:
            continue
        if place.exists() and not place.is_symlink():
            raise CastawayError(f"{code.path} is no link, expected one to the package of the task {task}; remove it")
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(code.target)


def code_of_base(tasks: Iterable[str]) -> Path:
    """One path that holds the code of all tasks whose text a base model reads.

    Raises:
        CastawayError: there is none, for links are watched one by one.
    """
    paths = sorted({task_code(task).path for task in tasks})
    if len(paths) == 1:
        return paths[0]
    if all(SHIPPED in path.parents for path in paths):
        return SHIPPED
    raise CastawayError(
        f"a base model reads text of {', '.join(map(str, paths))}, expected tasks of this repository, or a single one "
        "from outside; give the task from outside a base model of its own"
    )
