"""Finds the files that a module imports, directly or indirectly, by parsing the code without running it.

Imports of `castaway` and `stages` are followed anywhere in a file, except under `if TYPE_CHECKING`. The data files of a
package (scenarios, templates) count as part of it; Markdown and byte code do not (see .dvcignore).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOTS = ("castaway", "stages")
"""The packages whose imports are followed."""
IGNORED_SUFFIXES = (".md", ".pyc")
"""Suffixes of files that cannot change a result."""

Files = frozenset[Path]
"""Paths relative to the root of the repository."""


def follow(root: Path, start: Iterable[Path]) -> Files:
    """The files in `start`, and all files that they import, directly or indirectly."""
    found: set[Path] = set()
    waiting = list(start)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += imported(root, path)
    return frozenset(found)


def imported(root: Path, path: Path) -> list[Path]:
    """The files that one file imports itself, including the `__init__.py` of every package above them."""
    tree = ast.parse((root / path).read_text(encoding="utf-8"), str(path))
    package = list(path.parent.parts)
    names: list[str] = [".".join(package)]  # importing a module runs its package's __init__ first
    for node in statements(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # `from . import x` has level 1 and stays in the package; each further dot goes up by one.
            parent = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*parent, *([node.module] if node.module else [])])
            # An imported name may be a submodule; files_of ignores those that are not.
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return [file for name in names for file in files_of(root, name)]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every node of the tree, except those under `if TYPE_CHECKING`, which never run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            children: Iterable[ast.AST] = child.orelse
        else:
            yield child
            children = [child]
        for one in children:
            yield from statements(one)


def files_of(root: Path, module: str) -> Iterator[Path]:
    """The existing files of a module and its packages: of `castaway`, `castaway.rl` and `castaway.rl.ppo`."""
    parts = module.split(".")
    if parts[0] not in ROOTS:
        return
    for length in range(1, len(parts) + 1):
        place = Path(*parts[:length])
        for candidate in (place / "__init__.py", place.with_suffix(".py")):
            if (root / candidate).is_file():
                yield candidate


def with_data(root: Path, modules: Files) -> Files:
    """The modules together with the data files of their packages."""
    found = set(modules)
    for package in {path.parent for path in modules}:
        found.update(path for path in sources(root, package, into_packages=False) if path.suffix != ".py")
    return frozenset(found)


def sources(root: Path, folder: Path, *, into_packages: bool = True) -> Iterator[Path]:
    """Every file under a folder that can change a result.

    Args:
        root: the root of the repository.
        folder: relative to the root.
        into_packages: whether packages inside the folder are included.
    """
    for path in sorted((root / folder).iterdir()):
        inside = path.relative_to(root)
        if path.is_dir():
            if path.name != "__pycache__" and (into_packages or not (path / "__init__.py").exists()):
                yield from sources(root, inside, into_packages=into_packages)
        elif path.suffix not in IGNORED_SUFFIXES and path.name != "py.typed":
            yield inside


def cover(root: Path, files: Files) -> list[str]:
    """The same files as fewer paths: a folder replaces its files if all of them are in `files`."""

    def covered(folder: Path) -> list[str]:
        inside = list(sources(root, folder))
        if inside and all(path in files for path in inside):
            return [str(folder)]
        here = sorted(path for path in files if path.parent == folder)
        below = sorted({folder / path.relative_to(folder).parts[0] for path in files if folder in path.parents})
        return [str(path) for path in here] + [one for child in below if child not in here for one in covered(child)]

    return sorted(path for top in ROOTS for path in covered(Path(top)))
