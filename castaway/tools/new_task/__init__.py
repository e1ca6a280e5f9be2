"""Writes a package with a task in it: a working game of thirty lines to be replaced by one's own.

castaway task new lights
"""

from __future__ import annotations

import keyword
import re
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from castaway.errors import CastawayError
from castaway.tasks.registry import task_names

FILES = {
    "pyproject.toml": "pyproject.toml.jinja",
    "README.md": "README.md.jinja",
    "castaway_{name}/__init__.py": "package.py.jinja",
    "castaway_{name}/game.py": "game.py.jinja",
    "castaway_{name}/task.py": "task.py.jinja",
    "tests/test_{name}.py": "test.py.jinja",
}
"""What is written, by the template that it is made of."""


def write_package(name: str, folder: Path) -> str:
    """Write the package, and return what to do next.

    Raises:
        CastawayError: the name cannot be a task's, or the folder is there already.
    """
    if keyword.iskeyword(name):
        raise CastawayError(f"the task's name is {name!r}, a word of Python's own; choose another name")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise CastawayError(
            f"the task's name is {name!r}, expected lower-case letters, digits and underscores, a letter first"
        )
    if name in task_names():
        raise CastawayError(f"there is a task {name} already; choose another name")
    if folder.exists():
        raise CastawayError(f"{folder} is there already; name another folder with --to")
    values = {"name": name, "title": "".join(part.capitalize() for part in name.split("_")), "folder": str(folder)}
    values["blocks"] = rendered("blocks.yaml.jinja", values)
    for path, template in FILES.items():
        target = folder / path.format(name=name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(rendered(template, values), "utf-8")
    return rendered("next.txt.jinja", values).rstrip("\n")


def rendered(template: str, values: dict[str, str]) -> str:
    """A template of this package with the values in it."""
    text = (resources.files(__package__) / "template" / template).read_text("utf-8")
    maker = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    return maker.from_string(text).render(values)
