"""Finds tasks by name, and their code; makes them, and reads `params.yaml` with what its tasks say of it.

A task is an entry point of the group `castaway.tasks`, those of this repository (`pyproject.toml`) as well as those of
plug-ins, which are other installed packages. DVC tracks files by path, and the path of an installed package differs
between machines. So each plug-in gets a symbolic link in `.plugins/`, which git ignores, and which params.yaml names as
the `code` of its runs. A change in the plug-in then makes the stages of its runs out of date, wherever it is installed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from castaway.config.errors import CastawayError
from castaway.config.mistakes import did_you_mean
from castaway.config.params import Params, load_params
from castaway.config.section import Section
from castaway.tasks.task import Task

GROUP = "castaway.tasks"
FOLDER = Path(".plugins")  # holds the links to the plug-ins
SHIPPED = Path("castaway/envs")  # holds the tasks of this repository


def task_names() -> list[str]:
    return sorted({point.name for point in entry_points(group=GROUP)})


def entry_point(name: str) -> EntryPoint:
    """The entry point of a task; CastawayError unless exactly one installed package offers it."""
    points = list(dict.fromkeys(entry_points(group=GROUP, name=name)))
    if not points:
        hint = did_you_mean(name, task_names())
        raise CastawayError(f"no installed package offers the task {name!r} (entry points of {GROUP}); {hint}")
    if len(points) > 1:
        places = " and ".join(sorted(point.value for point in points))
        raise CastawayError(f"the task {name!r} is offered twice, by {places}; uninstall one of the packages")
    return points[0]


@cache
def task_class(name: str) -> type[Task[Any]]:
    """The class of a task; CastawayError if it cannot be imported, or is no subclass of `Task`."""
    point = entry_point(name)
    try:
        loaded = point.load()
    except (ImportError, AttributeError) as error:
        raise CastawayError(f"the task {name!r} cannot be imported from {point.value}: {error}") from None
    if not (isinstance(loaded, type) and issubclass(loaded, Task)):
        raise CastawayError(f"the task {name!r} is {point.value}, which is no subclass of castaway.tasks.Task")
    return loaded


def game_model(name: str) -> type[Section]:
    return task_class(name).game_model


def load_task(name: str, game: Section) -> Task[Any]:
    return task_class(name)(game)


def read_params(path: Path) -> Params:
    """A checked `params.yaml`, with what its tasks say of it; CastawayError names the file, the key and its value."""
    return load_params(path, game_model, code_of)


def task_of(params: Params, run: str) -> Task[Any]:
    if run not in params.tasks:
        raise CastawayError(f"params.yaml has no run {run!r} under tasks; it has {', '.join(params.tasks)}")
    return load_task(params.tasks[run].task, params.tasks[run].game)


@dataclass(frozen=True)
class TaskCode:
    task: str
    distribution: str  # the installed package that provides the task
    version: str
    path: Path  # relative to the root of the repository, as in params.yaml: a folder, or a single module
    target: Path | None  # the target of a plug-in's link; None for a task of this repository


def task_code(task: str) -> TaskCode:
    """The location and package of an installed task; CastawayError if they cannot be found."""
    point = entry_point(task)
    module = point.value.partition(":")[0]
    package = module.partition(".")[0]
    distribution, version = (point.dist.name, point.dist.version) if point.dist else ("unknown", "unknown")
    if package == "castaway":
        return TaskCode(task, distribution, version, Path(*module.split(".")[:-1]), None)
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        spec = None
    places = [*(spec.submodule_search_locations or ()), spec.origin] if spec else []  # of a package, or of one module
    if not places or places[0] is None:
        raise CastawayError(f"the package {package}, which offers the task {task!r}, cannot be found; install it")
    target = Path(places[0]).resolve()
    return TaskCode(task, distribution, version, FOLDER / (task if target.is_dir() else f"{task}.py"), target)


def code_of(tasks: Iterable[str]) -> str:
    """The one path that holds the code of these tasks; CastawayError if plug-ins have one link each."""
    paths = sorted({task_code(task).path for task in tasks})
    if len(paths) == 1:
        return str(paths[0])
    if all(SHIPPED in path.parents for path in paths):
        return str(SHIPPED)
    raise CastawayError(
        f"a base model reads text of {', '.join(map(str, paths))}, expected tasks of this repository or one plug-in; "
        "give each plug-in a base model of its own"
    )
