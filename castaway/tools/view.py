"""What people see of a task: how one talks to it, its charts, and a page of an episode. No stage depends on it.

A task that wants more than the defaults names a subclass of `TaskView` in an entry point of the group `castaway.views`,
with the task's name. A changed word here trains nothing again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from castaway.datasets.episodes import Row
from castaway.errors import CastawayError
from castaway.tasks.environment import Message
from castaway.tasks.registry import task_class

GROUP = "castaway.views"
"""The group of entry points."""

Chart = tuple[Mapping[str, Any], str]
"""Groups of bars, and the figure that they show; see `castaway.metrics.charts`."""


class TaskView:
    """A task as people see it."""

    def __init__(self, task: str) -> None:
        """The view of the task of that name."""
        self.task = task

    def chat_messages(self, line: str) -> tuple[Message, ...] | None:
        """The prompt for what somebody typed; by default None: nobody can talk to this task.

        Example: `return ({"role": "user", "content": f"question: {line}"},)`.
        """
        return None

    def chat_remark(self, messages: Sequence[Message], answer: str) -> str:
        """What is to be said of an answer beside the reward model's score. Example: `"level 2"`. By default nothing."""
        return ""

    def charts(self, metrics: Mapping[str, Any]) -> dict[str, Chart]:
        """Bar charts of the figures of evaluation, by the files' names. By default none.

        Example: `return {"games.svg": (metrics["games"], "success_rate")}`.
        """
        return {}

    def page(self, rows: Sequence[Row]) -> str | None:
        """A saved episode as one HTML file to watch. By default None: there is no such page."""
        return None


def view_of(task: str) -> TaskView:
    """The view of a task: its own, or the one that shows nothing special.

    Raises:
        CastawayError: there is no such task, or what its entry point names is no view.
    """
    task_class(task)
    for point in entry_points(group=GROUP, name=task):
        found = point.load()
        if not (isinstance(found, type) and issubclass(found, TaskView)):
            raise CastawayError(f"the view of {task} is {point.value}, which is no subclass of {__name__}.TaskView")
        return found(task)
    return TaskView(task)
