"""How a task is shown to people: a chat, charts, and a page of an episode.

A task can provide its own subclass of `TaskView`, by an entry point of the group `castaway.views` with the name of the
task. No stage depends on views, so that a change in a view makes no stage run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from castaway.config.section import Section
from castaway.datasets.episodes import Row
from castaway.errors import CastawayError
from castaway.tasks.environment import Message
from castaway.tasks.registry import task_class
from castaway.tools.replay.page import episode_page

GROUP = "castaway.views"
"""The group of entry points for views."""

Chart = tuple[Mapping[str, Any], str]
"""The groups of bars and the name of the figure to draw: the arguments of `castaway.metrics.charts.grouped_bars`."""


class TaskView:
    """How a task is shown to people; the methods here are the defaults."""

    chats: bool = False
    """Whether one can talk to a model of this task."""
    one_turn: bool = False
    """Whether each line of a chat is an episode of its own, as where an episode is one question."""

    def __init__(self, task: str, game: Section | None = None) -> None:
        """Make the view of the task of that name; `game` is the section of a run, if the view is for one run."""
        self.task = task
        self.game = game

    def chat_messages(self, line: str) -> tuple[Message, ...]:
        """The prompt for a typed line; used if `chats`.

        Example: `return ({"role": "user", "content": f"question: {line}"},)`. By default the line as it is.

        Raises:
            CastawayError: no prompt can be made of it.
        """
        return ({"role": "user", "content": line},)

    def chat_remark(self, messages: Sequence[Message], answer: str) -> str:
        """A remark shown beside the reward model's score of an answer, for example `"level 2"`; by default empty."""
        return ""

    def charts(self, metrics: Mapping[str, Any]) -> dict[str, Chart]:
        """Bar charts of the metrics of evaluation, by file name. By default none.

        Example: `return {"games.svg": (metrics["games"], "success_rate")}`.
        """
        return {}

    def page(self, rows: Sequence[Row]) -> str:
        """A saved episode as one HTML file, by default one that steps through its moments.

        Raises:
            CastawayError: the episode is not one of this task.
        """
        return episode_page(rows)


def view_of(task: str, game: Section | None = None) -> TaskView:
    """The view of a task: its own, or the default one.

    Args:
        task: the name of the task.
        game: the `game` section of a run; a chat needs it, to ask as the run's model was trained.

    Raises:
        CastawayError: there is no such task, or its entry point names something that is not a view.
    """
    task_class(task)  # only for its error: without it, an unknown task would get the default view
    for point in entry_points(group=GROUP, name=task):
        found = point.load()
        if not (isinstance(found, type) and issubclass(found, TaskView)):
            raise CastawayError(f"the view of {task} is {point.value}, which is not a subclass of {__name__}.TaskView")
        return found(task, game)
    return TaskView(task, game)
