"""The files that a module imports, directly or not: found by reading the code, without running it.

Followed are imports of `castaway` and `stages`, wherever they stand in a file, except under `if TYPE_CHECKING`. Data
files of a package (scenarios, templates) count with its modules; prose and byte code do not (see .dvcignore).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOTS = ("castaway", "stages")
PROSE = (".md", ".pyc")

Files = frozenset[Path]
"""Paths from the root of the repository."""


def follow(root: Path, start: Iterable[Path]) -> Files:
    """The modules that `start` imports, directly or not, with itself."""
    found: set[Path] = set()
    waiting = list(start)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += imported(root, path)
    return frozenset(found)


def imported(root: Path, path: Path) -> list[Path]:
    """The files of the modules that one file imports, with the packages that hold them."""
    tree = ast.parse((root / path).read_text(encoding="utf-8"), str(path))
    package = list(path.parent.parts)
    names: list[str] = [".".join(package)]  # importing a module runs its package's __init__ first
    for node in statements(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return [file for name in names for file in files_of(root, name)]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every node of the tree except what only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            children: Iterable[ast.AST] = child.orelse
        else:
            yield child
            children = [child]
        for one in children:
            yield from statements(one)


def files_of(root: Path, module: str) -> Iterator[Path]:
    """`castaway.rl.ppo` becomes the files of `castaway`, `castaway.rl` and `castaway.rl.ppo`, those that exist."""
    parts = module.split(".")
    if parts[0] not in ROOTS:
        return
    for length in range(1, len(parts) + 1):
        place = Path(*parts[:length])
        for candidate in (place / "__init__.py", place.with_suffix(".py")):
            if (root / candidate).is_file():
                yield candidate


def with_data(root: Path, modules: Files) -> Files:
    """The modules, and the data files of their packages."""
    found = set(modules)
    for package in {path.parent for path in modules}:
        found.update(path for path in sources(root, package, into_packages=False) if path.suffix != ".py")
    return frozenset(found)


def sources(root: Path, folder: Path, *, into_packages: bool = True) -> Iterator[Path]:
    """Every file under a folder that can change a result, optionally without the packages inside it."""
    for path in sorted((root / folder).iterdir()):
        inside = path.relative_to(root)
        if path.is_dir():
            if path.name != "__pycache__" and (into_packages or not (path / "__init__.py").exists()):
                yield from sources(root, inside, into_packages=into_packages)
        elif path.suffix not in PROSE and path.name != "py.typed":
            yield inside


def cover(root: Path, files: Files) -> list[str]:
    """The same files as few paths: a folder stands for its files if all of them count."""

    def covered(folder: Path) -> list[str]:
        inside = list(sources(root, folder))
        if inside and all(path in files for path in inside):
            return [str(folder)]
        here = sorted(path for path in files if path.parent == folder)
        below = sorted({folder / path.relative_to(folder).parts[0] for path in files if folder in path.parents})
        return [str(path) for path in here] + [one for child in below if child not in here for one in covered(child)]

    return sorted(path for top in ROOTS for path in covered(Path(top)))
