"""Tasks that live outside the library: writes a package for a new one, and links packages for DVC to follow.

`castaway/tasks/registry.py` says what the links are for.
"""

import keyword
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from castaway.config.errors import CastawayError
from castaway.config.params import Params
from castaway.tasks.registry import task_code, task_names

TEMPLATES = Path(__file__).parent / "templates" / "new_task"  # in `package`, at the places of what is written


def write_package(name: str, folder: Path) -> str:
    """Write the package, and return what to do next."""
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
    maker = Environment(loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True)
    values["blocks"] = maker.get_template("blocks.yaml.jinja").render(values)
    for template in maker.list_templates(filter_func=lambda one: one.startswith("package/")):
        target = folder / template.removeprefix("package/").removesuffix(".jinja").format(name=name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(maker.get_template(template).render(values), "utf-8")
    return maker.get_template("next.txt.jinja").render(values).rstrip("\n")


def tasks_in_use(params: Params) -> list[str]:
    read = [task for base in params.bases.values() for task in base.tasks]
    return sorted({*(run.task for run in params.tasks.values()), *read})


def link(root: Path, params: Params) -> None:
    """Create or correct the links to the plug-ins whose tasks are in use."""
    for task in tasks_in_use(params):
        code = task_code(task)
        if code.target is None:
            continue
        place = root / code.path
        if place.is_symlink() and place.resolve() == code.target:
            continue
        if place.exists() and not place.is_symlink():
            raise CastawayError(f"{code.path} is not a link, expected one to the package of the task {task}; remove it")
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(code.target)
