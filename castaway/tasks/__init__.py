"""The contracts of a task, of a text environment, of a reply and of its verdict, with the task registry."""

from castaway.tasks.environment import ChoiceRules
from castaway.tasks.task import Task

__all__ = ["ChoiceRules", "Task"]
