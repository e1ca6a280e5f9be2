"""Finds the code of a task: in this repository, or in a plug-in, which is another installed package.

DVC tracks files by path, and the path of an installed package differs between machines. So each plug-in gets a symbolic
link in `.plugins/`, which git ignores, and dvc.yaml lists the link. A change in the plug-in then makes the stages of
its runs out of date, wherever it is installed.
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
"""Holds the links to the plug-ins."""
SHIPPED = Path("castaway/envs")
"""Holds the tasks of this repository."""


@dataclass(frozen=True)
class TaskCode:
    """The code of a task."""

    task: str
    distribution: str
    """The installed package that provides the task."""
    version: str
    """The version of that package."""
    path: Path
    """Relative to the root of the repository, as in dvc.yaml: a folder, or a single module."""
    target: Path | None
    """The target of a plug-in's link; None for a task of this repository."""


def task_code(task: str) -> TaskCode:
    """The location and package of an installed task.

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
    """The folder of a package, or the file of a single module, with symbolic links resolved.

    Raises:
        CastawayError: it cannot be found.
    """
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not (spec.submodule_search_locations or spec.origin):
        raise CastawayError(f"the package {package}, which offers the task {point.name!r}, cannot be found; install it")
    folders = list(spec.submodule_search_locations or ())
    return Path(folders[0] if folders else str(spec.origin)).resolve()


def tasks_in_use(params: Params) -> list[str]:
    """Names of the tasks of all runs and of those whose text base models are trained on, sorted."""
    read = [task for base in params.bases.values() for task in base.tasks]
    return sorted({*(run.task for run in params.tasks.values()), *read})


def link(root: Path, tasks: Iterable[str]) -> None:
    """Create or correct the links to plug-ins among `tasks`.

    Raises:
        CastawayError: a file or folder is where a link must be.
    """
    for task in tasks:
        code = task_code(task)
        if code.target is None:
            continue
        place = root / code.path
        if place.is_symlink() and place.resolve() == code.target:
            continue
        if place.exists() and not place.is_symlink():
            raise CastawayError(f"{code.path} is not a link, expected one to the package of the task {task}; remove it")
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(code.target)


def code_of_base(tasks: Iterable[str]) -> Path:
    """The one path that dvc.yaml lists for all tasks whose text a base model is trained on.

    Raises:
        CastawayError: no single path covers them, because plug-ins have one link each.
    """
    paths = sorted({task_code(task).path for task in tasks})
    if len(paths) == 1:
        return paths[0]
    if all(SHIPPED in path.parents for path in paths):
        return SHIPPED
    raise CastawayError(
        f"a base model reads text of {', '.join(map(str, paths))}, expected tasks of this repository or one plug-in; "
        "give each plug-in a base model of its own"
    )
