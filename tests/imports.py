"""What a file imports, directly or indirectly, and the parameters that a stage reads: by parsing, without running."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOTS = ("castaway", "stages")
"""The packages whose imports are followed."""


def follow(root: Path, start: Iterable[Path], without: Path | None = None) -> set[Path]:
    """The files in `start`, and all that they import wherever it stands, but for one file and what it alone imports.

    Imports under `if TYPE_CHECKING` never run.
    """
    found: set[Path] = set()
    waiting = list(start)
    while waiting:
        path = waiting.pop()
        if path not in found and path != without:
            found.add(path)
            waiting += _imported(root, path)
    return found


def with_data(root: Path, modules: Iterable[Path]) -> set[Path]:
    """The modules, and the files beside them that are no modules: templates, scenarios, texts."""
    beside = {path for folder in {one.parent for one in modules} for path in (root / folder).iterdir()}
    data = {path.relative_to(root) for path in beside if path.is_file() and path.suffix not in (".py", ".md", ".typed")}
    return {*modules, *data}


def _imported(root: Path, path: Path) -> Iterator[Path]:
    names = [".".join(path.parent.parts)]  # importing a module runs its package's __init__ first
    for node in _running(ast.parse((root / path).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parent = path.parent.parts[: len(path.parent.parts) - node.level + 1] if node.level else ()
            module = ".".join([*parent, *([node.module] if node.module else [])])
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]  # a name may be a submodule
    for name in names:
        parts = name.split(".")
        for place in [Path(*parts[:length]) for length in range(1, len(parts) + 1) if parts[0] in ROOTS]:
            yield from (file for file in (place / "__init__.py", place.with_suffix(".py")) if (root / file).is_file())


def _running(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        only_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not only_types:
            yield child
        for one in child.orelse if isinstance(child, ast.If) and only_types else [child]:
            yield from _running(one)


def parameters(path: Path, stage: str) -> set[str]:
    """The parameters that a stage reads, itself or by a property of its context, in the words of dvc.yaml."""
    tree, context = (ast.parse(one.read_text("utf-8")) for one in (path, path.with_name("context.py")))
    found = _read(tree, "context", stage)
    used = {node.attr for node in _uses(tree, "context")}
    for node in ast.walk(context):
        if isinstance(node, ast.FunctionDef) and node.name in used:
            found |= _read(node, "self", stage)
    return {name for name in found if "." not in name or name.partition(".")[0] not in found}


def _uses(tree: ast.AST, name: str) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            yield node


def _read(tree: ast.AST, name: str, stage: str) -> set[str]:
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found: set[str] = set()
    for node in _uses(tree, name):
        parent = parents[node]
        if node.attr != "params":
            continue
        if isinstance(parent, ast.Call) and ast.unparse(parent.func) == "task_of":
            found |= {"tasks.${key}.task", "tasks.${key}.game"}  # all that it reads of what it is given
            continue
        names: list[str] = []
        while isinstance(parent, ast.Attribute | ast.Subscript):
            names.append(parent.attr if isinstance(parent, ast.Attribute) else _item(parent, stage))
            parent = parents[parent]
        assert names, f"{stage}: line {node.lineno} passes all parameters on; name the section"
        found.add(".".join(names[:2]))  # two levels are as fine as dvc.yaml lists parameters
    return found


def _item(subscript: ast.Subscript, stage: str) -> str:
    of_base = stage != "base" and ast.unparse(subscript.slice) in ("context.base", "self.base")
    return "${item.base}" if of_base else "${key}"
