"""Tasks by name: the entry points of the group `castaway.tasks`, and `params.yaml` with every game checked by its task.

MAROONED, OpenSpiel and STRICTBOT come in by the same door as a package from outside: `pyproject.toml` names them.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from castaway.config.params import Params, load_params
from castaway.config.section import Section
from castaway.errors import CastawayError
from castaway.tasks.task import Task

GROUP = "castaway.tasks"
"""The group of entry points."""


def task_names() -> list[str]:
    """Every task that an installed package offers."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def entry_point(name: str) -> EntryPoint:
    """Where the task of that name is.

    Raises:
        CastawayError: no installed package offers it, or two do.
    """
    found = list(dict.fromkeys(entry_points(group=GROUP, name=name)))
    if not found:
        close = difflib.get_close_matches(name, task_names(), n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(task_names()) or 'none'}"
        raise CastawayError(f"no installed package offers the task {name!r} (entry points of {GROUP}); {hint}")
    if len(found) > 1:
        places = " and ".join(sorted(point.value for point in found))
        raise CastawayError(f"the task {name!r} is offered twice, by {places}; uninstall one of the packages")
    return found[0]


@cache
def task_class(name: str) -> type[Task[Any]]:
    """The class of the task of that name.

    Raises:
        CastawayError: there is no such task, or what its entry point names is none.
    """
    point = entry_point(name)
    try:
        found = point.load()
    except (ImportError, AttributeError) as error:
        raise CastawayError(f"the task {name!r} cannot be imported from {point.value}: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise CastawayError(f"the task {name!r} is {point.value}, which is no subclass of castaway.tasks.Task")
    return found


def game_model(name: str) -> type[Section]:
    """The model of a task's own section of the parameters."""
    return task_class(name).game_model


def load_task(name: str, game: Section) -> Task[Any]:
    """The task of that name with a game section."""
    return task_class(name)(game)


def read_params(path: Path) -> Params:
    """Read and check a `params.yaml`, every game by the model of its task.

    Raises:
        CastawayError: with one line that names the file, the key and its value.
    """
    return load_params(path, game_model)


def task_of(params: Params, run: str) -> Task[Any]:
    """The task of a run of `params.yaml`.

    Raises:
        CastawayError: there is no such run.
    """
    if run not in params.tasks:
        raise CastawayError(f"params.yaml has no run {run!r} under tasks; it has {', '.join(params.tasks)}")
    return load_task(params.tasks[run].task, params.tasks[run].game)
