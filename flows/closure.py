"""Derives the dependencies that dvc.yaml must list from the code and params.yaml, and compares or writes them.

    python -m flows closure            show where dvc.yaml differs
    python -m flows closure --write    write the derived lists into dvc.yaml

DVC tracks only what is listed, so a missing entry would leave a stale result in place.

- Derived for each stage: the code that it imports, the parameters that it reads, its outputs, and its command.
- Derived for each run and base model (`vars`): the path of its task's code, and an empty mapping for every section that
  it does not override.
- A run's overrides stand in the command after `#`. DVC compares commands, and it cannot depend on a parameter that
  does not exist.
- Written by hand: description, data dependencies, `meta`, and which curves are plotted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from castaway.config.bases import Base, BaseTextParams, PathParams
from castaway.config.params import STAGE_SECTIONS, Params
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from flows.imports import Files, cover, follow, sources, with_data
from flows.plugins import SHIPPED, code_of_base, link, task_code, tasks_in_use
from flows.reads import ITEM, parameters

REGISTRY = Path("castaway/tasks/registry.py")
CODE = "${item.code}"
"""DVC's placeholder for the path that a run or base model alone depends on: the code of its task, or the folder that it
is copied from."""
DESCRIBED = Path("castaway/config/bases.py")
"""Stands for such a path where there is none: a model from the Hub or a package is all in its block of params.yaml."""


def main(root: Path, *, write: bool) -> int:
    """Compare dvc.yaml with the derived lists, or write them.

    Returns:
        The exit status: 1 if something differs and was not written, or if a stage has no file; else 0.

    Raises:
        CastawayError: there is no dvc.yaml, or params.yaml is invalid.
    """
    path = root / "dvc.yaml"
    params = read_params(root / "params.yaml")
    link(root, tasks_in_use(params))
    yaml = YAML()
    yaml.width = 160
    yaml.indent(mapping=2, sequence=4, offset=2)
    try:
        document = yaml.load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CastawayError(f"there is no dvc.yaml in {root}; run from the root of the repository") from None
    broken: list[str] = []
    differing = list(_differing(root, document, params, broken))
    for line in (*differing, *broken):
        print(line)
    if write and differing:
        with path.open("w", encoding="utf-8") as file:
            yaml.dump(document, file)
    if differing or not broken:
        print(_summary(len(differing), written=write))
    return int(bool(broken or (differing and not write)))


def _summary(count: int, *, written: bool) -> str:
    if not count:
        return "dvc.yaml lists what is used"
    place, differ = ("place", "differs") if count == 1 else ("places", "differ")
    return f"{count} {place} {'written' if written else differ}"


def _differing(root: Path, document: Any, params: Params, broken: list[str]) -> Iterator[str]:
    """Correct `document` in place, and yield one line for each difference.

    Stages whose lists cannot be derived are left alone; `broken` gets a line for each of them.
    """
    wanted_vars = variables(params)
    if _plain(document.get("vars")) != wanted_vars:
        yield "vars: the values of each run and base model"
        document["vars"] = _flow(wanted_vars)
        document.move_to_end("vars", last=False)
    for name, definition in document["stages"].items():
        body = definition.get("do", definition)
        try:
            wanted = stage_lists(root, name, params)
        except CastawayError as error:
            broken.append(str(error))
            continue
        wanted["deps"] += [dependency for dependency in body.get("deps", []) if is_data(dependency)]
        for key, value in wanted.items():
            listed = _plain(body.get(key))
            # A key that is absent and a key whose list is empty mean the same.
            if listed != value and not (key not in body and not value):
                yield from _changes(f"{name}.{key}", listed, value)
                _put(body, key, value)
    for plot in document.get("plots", []):
        for title, definition in plot.items():
            curves = drawn(_plain(definition["y"]), params)
            if curves != _plain(definition["y"]):
                yield f"plots.{title}: the curves of every run and base model"
                definition["y"] = CommentedMap(curves)


def variables(params: Params) -> list[dict[str, Any]]:
    """The `vars` of dvc.yaml: the task's code and empty overrides of each run, and the source of each base model."""
    runs: dict[str, dict[str, Any]] = {
        name: {"code": str(task_code(run.task).path), **{section: {} for section in STAGE_SECTIONS}}
        for name, run in params.tasks.items()
    }
    bases = {name: {"code": made_from(base)} for name, base in params.bases.items()}
    return [{"tasks": runs}, {"bases": bases}]


def made_from(base: Base) -> str:
    """The path that a base model alone depends on."""
    if isinstance(base, BaseTextParams):
        return str(code_of_base(base.text))
    return base.path if isinstance(base, PathParams) else str(DESCRIBED)


def stage_lists(root: Path, name: str, params: Params) -> dict[str, Any]:
    """The derived entries of a stage in dvc.yaml, by key; `deps` lacks the data dependencies.

    Raises:
        CastawayError: the stage has no file, or passes its parameters on as a whole.
    """
    start = Path("stages") / f"{name}.py"
    if not (root / start).exists():
        raise CastawayError(f"{start} does not exist, though dvc.yaml names the stage {name}")
    read = parameters(root / start, name)
    sections = [section for section in dict.fromkeys(key.split(".")[0] for key in read) if section in STAGE_SECTIONS]
    overrides = " ".join(f"{section}: ${{item.{section}}}" for section in sections)
    # A search in the text is enough: a stage that writes curves names `context.log` somewhere.
    curves = "context.log" in (root / start).read_text("utf-8")
    folder = f"data/{ITEM}"
    lists: dict[str, Any] = {
        "cmd": f"python -m flows {name}@{ITEM}" + (f" # {overrides}" if overrides else ""),
        "deps": code_dependencies(root, name, params),
        "params": read,
        "outs": [f"{folder}/{name}", *([f"{folder}/plots/{name}.jsonl"] if curves else [])],
        "metrics": [_uncached(f"{folder}/{kind}/{name}.json") for kind in ("metrics", "runs")],
        "plots": [_uncached(f"{folder}/plots/{name}.json")] if curves else [],
    }
    return lists


def code_dependencies(root: Path, stage: str, params: Params) -> list[str]:
    """The code dependencies of a stage for dvc.yaml; a folder stands for its files if the stage depends on all."""
    files = closure(root, stage, tasks_in_use(params))
    return sorted([*cover(root, files), *([CODE] if REGISTRY in files else [])])


def closure(root: Path, stage: str, tasks: list[str]) -> Files:
    """The code files that a stage depends on in every run, without the code of the tasks themselves.

    A stage that imports the registry also depends on the code of its run's task; dvc.yaml adds that by run.

    Args:
        root: the root of the repository.
        stage: the name of the stage.
        tasks: the tasks in use; what their code imports from outside the tasks counts too.
    """
    start = Path("stages") / f"{stage}.py"
    common = with_data(root, follow(root, [start]))
    if REGISTRY not in common:
        return common
    codes = [task_code(task) for task in tasks]
    modules = [path for code in codes for path in _modules(root, code.path)]
    everything = with_data(root, follow(root, [start, *modules]))
    own = [code.path for code in codes]
    of_tasks = {path for path in everything if any(one == path or one in path.parents for one in (*own, SHIPPED))}
    # Modules directly in castaway/envs belong to no single task: all tasks share them.
    shared = {path for path in of_tasks if path.parent == SHIPPED}
    return (everything - of_tasks) | shared


def _modules(root: Path, code: Path) -> list[Path]:
    return [path for path in sources(root, code) if path.suffix == ".py"] if (root / code).is_dir() else [code]


def drawn(curves: dict[str, Any], params: Params) -> dict[str, Any]:
    """The curve files of a plot: the columns that it draws, repeated for every run or base model.

    Args:
        curves: path of a curve file to the column or columns drawn from it, for at least one run or base model.
        params: all parameters; they name the runs and base models.
    """
    wanted = {Path(path).name: columns for path, columns in curves.items()}
    stages_of_bases = {"base.json"}
    found = {}
    for names, of_base in ((params.bases, True), (params.tasks, False)):
        for name in names:
            for file, columns in wanted.items():
                if (file in stages_of_bases) is of_base:
                    found[f"data/{name}/plots/{file}"] = columns
    return found


def is_data(dependency: str) -> bool:
    """Whether a dependency is the output of another stage rather than code."""
    return dependency.startswith("data/")


def _uncached(path: str) -> dict[str, Any]:
    return {path: {"cache": False}}


def _changes(place: str, listed: Any, wanted: Any) -> Iterator[str]:
    """One line for each missing (+) and superfluous (-) entry, or one if only the order differs (~)."""
    if not (isinstance(listed, list) and isinstance(wanted, list)):
        yield f"{place}: {wanted}"
        return
    changes = [("+", one) for one in wanted if one not in listed] + [("-", one) for one in listed if one not in wanted]
    yield from (f"{place}: {sign} {one}" for sign, one in changes or [("~", "order")])


ORDER = ("desc", "cmd", "deps", "params", "outs", "metrics", "plots", "meta")
"""The order of the keys of a stage in dvc.yaml."""


def _put(body: Any, key: str, value: Any) -> None:
    """Set a key of a stage's block, keeping the order of the keys; an empty value removes the key."""
    new = CommentedSeq(value) if isinstance(value, list) else value
    if not value:
        del body[key]
    elif key in body:
        body[key] = new
    else:
        before = [name for name in body if name in ORDER and ORDER.index(name) < ORDER.index(key)]
        body.insert(list(body).index(before[-1]) + 1 if before else 0, key, new)


def _plain(value: Any) -> Any:
    """The value as plain dictionaries and lists, which compare equal whatever their formatting in the file."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _flow(value: list[dict[str, Any]]) -> CommentedSeq:
    """The value as YAML with one line for each run and base model."""
    rows = CommentedSeq()
    for part in value:
        row = CommentedMap()
        for name, inner in part.items():
            row[name] = CommentedMap()
            for key, one in inner.items():
                row[name][key] = CommentedMap(one)
                row[name][key].fa.set_flow_style()
        rows.append(row)
    return rows
