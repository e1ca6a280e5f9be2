"""Finds tasks by name, and reads `params.yaml` with each `game` section checked by its task.

A task is an entry point of the group `castaway.tasks`. MAROONED, OpenSpiel and STRICTBOT are registered in the same way
as tasks of other packages: in `pyproject.toml`.
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
"""The name of the entry point group."""


def task_names() -> list[str]:
    """The names of all tasks of installed packages, sorted."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def entry_point(name: str) -> EntryPoint:
    """The entry point of the task with this name.

    Raises:
        CastawayError: no installed package offers the task, or more than one does.
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
    """The class of the task with this name.

    Raises:
        CastawayError: there is no such task, it cannot be imported, or it is not a subclass of `Task`.
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
    """The pydantic model of the `game` section of the task with this name."""
    return task_class(name).game_model


def load_task(name: str, game: Section) -> Task[Any]:
    """Make the task with this name and this game section."""
    return task_class(name)(game)


def read_params(path: Path) -> Params:
    """Read and check a `params.yaml`, each `game` section with the model of its task.

    Raises:
        CastawayError: one line that names the file, the key and its value.
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
