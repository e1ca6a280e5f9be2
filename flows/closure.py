"""What dvc.yaml has to list, worked out from the code and params.yaml; DVC itself sees only what is listed.

    python -m flows closure            tell where dvc.yaml differs
    python -m flows closure --write    write the lists into dvc.yaml

Of each stage: the code that it imports, the parameters that it reads, what it leaves, and its command. Of each run and
base model (`vars`): where its task's code is, and an empty mapping for every section of which it sets nothing
differently. What a run sets differently stands behind the `#` of a command: DVC compares commands, and cannot depend on
a parameter that is not there. By hand are written: description, data that is read, `meta`, and which curves are drawn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from castaway.config.params import STAGE_SECTIONS, Params
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from flows.imports import Files, cover, follow, sources, with_data
from flows.plugins import SHIPPED, code_of_base, link, task_code, tasks_in_use

REGISTRY = Path("castaway/tasks/registry.py")
ITEM, CODE = "${key}", "${item.code}"
"""How dvc.yaml writes the run, or the base model, inside a `foreach`; and the path of its task's code."""
HELD = "params"
"""The attribute of a stage's context that parameters are read from."""


def main(root: Path, *, write: bool) -> int:
    """Compare, or write; the exit status is 1 if something differs."""
    path = root / "dvc.yaml"
    params = read_params(root / "params.yaml")
    link(root, tasks_in_use(params))
    yaml = YAML()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    try:
        document = yaml.load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CastawayError(f"there is no dvc.yaml in {root}; run from the root of the repository") from None
    differing = list(_differing(root, document, params))
    for line in differing:
        print(line)
    if write and differing:
        with path.open("w", encoding="utf-8") as file:
            yaml.dump(document, file)
    print(f"{len(differing)} places {'written' if write else 'differ'}" if differing else "dvc.yaml lists what is used")
    return 0 if write else min(len(differing), 1)


def _differing(root: Path, document: Any, params: Params) -> Iterator[str]:
    """A line for each place that differs, and the place put right."""
    wanted_vars = variables(params)
    if _plain(document.get("vars")) != wanted_vars:
        yield "vars: what runs and base models have of their own"
        document["vars"] = _flow(wanted_vars)
        document.move_to_end("vars", last=False)
    for name, definition in document["stages"].items():
        body = definition.get("do", definition)
        try:
            wanted = stage_lists(root, name, params)
        except CastawayError as error:
            yield str(error)
            continue
        wanted["deps"] += [dependency for dependency in body.get("deps", []) if is_data(dependency)]
        for key, value in wanted.items():
            listed = _plain(body.get(key))
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
    """What DVC is told of each run and base model beside params.yaml."""
    empty: dict[str, Any] = {section: {} for section in STAGE_SECTIONS}
    runs = {name: {"code": str(task_code(run.task).path), **empty} for name, run in params.tasks.items()}
    bases = {name: {"code": str(code_of_base(base.text))} for name, base in params.bases.items()}
    return [{"tasks": runs}, {"bases": bases}]


def stage_lists(root: Path, name: str, params: Params) -> dict[str, Any]:
    """What a stage's block has to say, by key; its data dependencies aside."""
    start = Path("stages") / f"{name}.py"
    if not (root / start).exists():
        raise CastawayError(f"{start} does not exist, though dvc.yaml names the stage {name}")
    read = parameters(root / start, name)
    changed = [section for section in dict.fromkeys(key.split(".")[0] for key in read) if section in STAGE_SECTIONS]
    differently = " ".join(f"{section}: ${{item.{section}}}" for section in changed)
    curves = "context.log" in (root / start).read_text("utf-8")
    folder = f"data/{ITEM}"
    lists: dict[str, Any] = {
        "cmd": f"python -m flows {name}@{ITEM}" + (f" # {differently}" if differently else ""),
        "deps": code_dependencies(root, name, params),
        "params": read,
        "outs": [f"{folder}/{name}", *([f"{folder}/plots/{name}.jsonl"] if curves else [])],
        "metrics": [_uncached(f"{folder}/{kind}/{name}.json") for kind in ("metrics", "runs")],
        "plots": [_uncached(f"{folder}/plots/{name}.json")] if curves else [],
    }
    return lists


def parameters(path: Path, stage: str) -> list[str]:
    """The parameters that a stage's file reads, as dvc.yaml lists them; a whole section stands for its keys.

    Raises:
        CastawayError: it hands all parameters on, so that nobody can tell which are read.
    """
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == f"context.{HELD}":
            found.update(_read_at(node, above, path))
    whole = {name for name in found if "." not in name}
    kept = [name for name in found if name in whole or name.partition(".")[0] not in whole]
    order = ["seed", "device", "threads", stage]
    return sorted(kept, key=lambda name: (order.index(name) if name in order else len(order), name))


def _read_at(node: ast.Attribute, above: dict[ast.AST, ast.AST], path: Path) -> list[str]:
    """What is read where `context.params` stands: `ppo`, `ppo.lora`, an item of a mapping, or the run's task."""
    parent = above[node]
    if isinstance(parent, ast.Call) and ast.unparse(parent.func) == "task_of":
        return [f"tasks.{ITEM}.task", f"tasks.{ITEM}.game"]
    names: list[str] = []
    while isinstance(parent, ast.Attribute | ast.Subscript):
        names.append(parent.attr if isinstance(parent, ast.Attribute) else ITEM)
        parent = above[parent]
    if not names:
        raise CastawayError(f"{path.name}:{node.lineno} hands on context.{HELD} as a whole; name the section")
    return [".".join(names[:2])]


def code_dependencies(root: Path, stage: str, params: Params) -> list[str]:
    """The code dependencies of a stage as dvc.yaml has to list them: whole folders where every file counts."""
    files = closure(root, stage, tasks_in_use(params))
    return sorted([*cover(root, files), *([CODE] if REGISTRY in files else [])])


def closure(root: Path, stage: str, tasks: list[str]) -> Files:
    """The files that a stage depends on whatever its run; the code of its task comes on top, where it needs one."""
    start = Path("stages") / f"{stage}.py"
    common = with_data(root, follow(root, [start]))
    if REGISTRY not in common:
        return common
    codes = [task_code(task) for task in tasks]
    modules = [path for code in codes for path in _modules(root, code.path)]
    everything = with_data(root, follow(root, [start, *modules]))
    own = [code.path for code in codes]
    apart = {path for path in everything if any(one == path or one in path.parents for one in (*own, SHIPPED))}
    # What all games share stands beside their packages, and is everybody's.
    shared = {path for path in apart if path.parent == SHIPPED}
    return (everything - apart) | shared


def _modules(root: Path, code: Path) -> list[Path]:
    return [path for path in sources(root, code) if path.suffix == ".py"] if (root / code).is_dir() else [code]


def drawn(curves: dict[str, Any], params: Params) -> dict[str, Any]:
    """The files of a plot: what it draws of one run or base model, for all of them."""
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
    """Whether a dependency is what another stage made, not code."""
    return dependency.startswith("data/")


def _uncached(path: str) -> dict[str, Any]:
    return {path: {"cache": False}}


def _changes(place: str, listed: Any, wanted: Any) -> Iterator[str]:
    """What is too much and what is missing, a line each."""
    if not (isinstance(listed, list) and isinstance(wanted, list)):
        yield f"{place}: {wanted}"
        return
    changes = [("+", one) for one in wanted if one not in listed] + [("-", one) for one in listed if one not in wanted]
    yield from (f"{place}: {sign} {one}" for sign, one in changes or [("~", "order")])


ORDER = ("desc", "cmd", "deps", "params", "outs", "metrics", "plots", "meta")


def _put(body: Any, key: str, value: Any) -> None:
    """Put a list into a stage's block, at its place among the keys."""
    new = CommentedSeq(value) if isinstance(value, list) else value
    if not value:
        del body[key]
    elif key in body:
        body[key] = new
    else:
        before = [name for name in body if name in ORDER and ORDER.index(name) < ORDER.index(key)]
        body.insert(list(body).index(before[-1]) + 1 if before else 0, key, new)


def _plain(value: Any) -> Any:
    """Without what the YAML library hangs on it."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _flow(value: list[dict[str, Any]]) -> CommentedSeq:
    """With one line for each run and base model."""
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
