"""The contracts: of a task, of its text environment, and of a reply; the registry and the checker."""

from castaway.tasks.choice import ChoiceRules
from castaway.tasks.task import Task

__all__ = ["ChoiceRules", "Task"]
