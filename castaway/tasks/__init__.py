"""The contracts of a task, of a text environment and of a reply, with the task registry and the contract checker."""

from castaway.tasks.choice import ChoiceRules
from castaway.tasks.task import Task

__all__ = ["ChoiceRules", "Task"]
