"""Finds out which parameters a stage reads, from its source: every use of `context.params`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from castaway.errors import CastawayError

ITEM, BASE = "${key}", "${item.base}"
"""DVC's placeholders inside a `foreach`: the name of the run or base model; the name of a run's base model."""
PARAMS_ATTRIBUTE = "params"
"""The attribute of a stage's context that holds the parameters."""


def parameters(path: Path, stage: str) -> list[str]:
    """The parameters that a stage's file reads, itself or by a property of its context, as dvc.yaml lists them.

    A section that is read as a whole replaces its single keys.

    Raises:
        CastawayError: the stage passes all parameters on, so that those it reads cannot be determined.
    """
    found = _read(_parsed(path), "context", path, stage)
    context = path.with_name("context.py")
    if context.exists():
        used = {node.attr for node in _uses(_parsed(path), "context")}
        for node in ast.walk(_parsed(context)):
            if isinstance(node, ast.FunctionDef) and node.name in used:
                found |= _read(node, "self", context, stage)
    whole = {name for name in found if "." not in name}
    kept = [name for name in found if name in whole or name.partition(".")[0] not in whole]
    order = ["seed", "device", "threads", stage]
    return sorted(kept, key=lambda name: (order.index(name) if name in order else len(order), name))


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _uses(tree: ast.AST, name: str) -> Iterator[ast.Attribute]:
    """All attributes of the variable of this name that a piece of code uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            yield node


def _read(tree: ast.AST, name: str, path: Path, stage: str) -> set[str]:
    """The parameters that a piece of code reads from the context, which is the variable of this name."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    nodes = [node for node in _uses(tree, name) if node.attr == PARAMS_ATTRIBUTE]
    return {read for node in nodes for read in _read_at(node, parents, path, stage)}


def _read_at(node: ast.Attribute, parents: dict[ast.AST, ast.AST], path: Path, stage: str) -> list[str]:
    """The parameters read by one use of `context.params`: `ppo`, `ppo.lora`, an item of a mapping, or the run's task.

    Args:
        node: the expression `context.params`.
        parents: the parent of each node of the tree.
        path: the stage's file, for the error message.
        stage: its name.
    """
    parent = parents[node]
    # task_of takes all parameters, but reads only the task of the run and the settings of its game.
    if isinstance(parent, ast.Call) and ast.unparse(parent.func) == "task_of":
        return [f"tasks.{ITEM}.task", f"tasks.{ITEM}.game"]
    names: list[str] = []
    while isinstance(parent, ast.Attribute | ast.Subscript):
        names.append(parent.attr if isinstance(parent, ast.Attribute) else _item(parent, stage))
        parent = parents[parent]
    if not names:
        raise CastawayError(
            f"{path.name}:{node.lineno} passes context.{PARAMS_ATTRIBUTE} on as a whole; name the section"
        )
    # Two levels are as fine as dvc.yaml lists parameters.
    return [".".join(names[:2])]


def _item(subscript: ast.Subscript, stage: str) -> str:
    """The placeholder for the key: the run's or base model's own name, or that of the base model of a run."""
    return BASE if stage != "base" and ast.unparse(subscript.slice) in ("context.base", "self.base") else ITEM
