"""What a served teacher is told of a task, in files that a person can edit: TASK.txt, inside verdict.jinja."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from castaway.errors import CastawayError

RUBRICS = Path(__file__).parent


@cache
def instructions(task: str, folder: Path = RUBRICS) -> str:
    """What every question about a task begins with: the frame, and within it the task's rubric.

    Raises:
        CastawayError: the task has no rubric.
    """
    path = folder / f"{task}.txt"
    try:
        rubric = path.read_text("utf-8").strip()
    except FileNotFoundError:
        raise CastawayError(f"the teacher has no rubric for {task}: write {path.name} in {folder}") from None
    environment = Environment(loader=FileSystemLoader(RUBRICS), undefined=StrictUndefined, autoescape=False)
    return environment.get_template("verdict.jinja").render(rubric=rubric)
