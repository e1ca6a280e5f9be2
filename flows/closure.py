"""The code that each stage depends on, found by following its imports; DVC itself sees only what dvc.yaml lists.

    python -m flows closure            tell where dvc.yaml and the imports differ
    python -m flows closure --write    write the lists into dvc.yaml

Followed are imports of `castaway` and `stages`, wherever they stand in a file, except under `if TYPE_CHECKING`. A stage
that reaches the registry of environments depends on its task's whole package too, for the registry imports it by name.
Data files of a package (scenarios, templates) count with its modules; prose and byte code do not (see .dvcignore).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from castaway.errors import CastawayError

ROOTS = ("castaway", "stages")
ENVIRONMENTS = Path("castaway/envs")
REGISTRY = Path("castaway/tasks/registry.py")
PROSE = (".md", ".pyc")
ITEM = "${key}"
"""How dvc.yaml writes the task inside a `foreach`."""

Files = frozenset[Path]


def main(root: Path, *, write: bool) -> int:
    """Compare, or write; the exit status is 1 if something differs."""
    path = root / "dvc.yaml"
    yaml = YAML()
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    try:
        document = yaml.load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CastawayError(f"there is no dvc.yaml in {root}; run from the root of the repository") from None
    differing = 0
    for name, definition in document["stages"].items():
        body = definition.get("do", definition)
        listed = [dependency for dependency in body.get("deps", []) if not is_data(dependency)]
        try:
            wanted = code_dependencies(root, name, per_task=definition.get("foreach") == "${tasks}")
        except CastawayError as error:
            differing += 1
            print(error)
            continue
        if listed != wanted:
            differing += 1
            changes = [("+", path) for path in set(wanted) - set(listed)]
            changes += [("-", path) for path in set(listed) - set(wanted)]
            for sign, path_changed in sorted(changes, key=lambda change: change[1]):
                print(f"{name}: {sign} {path_changed}")
            replace(body, wanted)
    if write and differing:
        with path.open("w", encoding="utf-8") as file:
            yaml.dump(document, file)
    print(f"{differing} stages {'written' if write else 'differ'}" if differing else "dvc.yaml lists what is imported")
    return 0 if write else min(differing, 1)


def is_data(dependency: str) -> bool:
    """Whether a dependency is what another stage made, not code."""
    return dependency.startswith("data/")


def replace(body: Any, code: list[str]) -> None:
    """Put the code dependencies of a stage in front of its data, in place."""
    data = [dependency for dependency in body.get("deps", []) if is_data(dependency)]
    if "deps" not in body:
        body.insert(list(body).index("cmd") + 1, "deps", [])
    body["deps"][:] = [*code, *data]


def code_dependencies(root: Path, stage: str, *, per_task: bool) -> list[str]:
    """The code dependencies of a stage as dvc.yaml has to list them: whole folders where every file counts."""
    common, by_name = closure(root, stage, tasks(root))
    if per_task:
        listed = [*cover(root, common), *([str(ENVIRONMENTS / ITEM)] if by_name else [])]
    else:
        listed = cover(root, common | by_name)
    return sorted(listed)


def closure(root: Path, stage: str, of_tasks: Iterable[str]) -> tuple[Files, Files]:
    """The files that a stage depends on: those for whatever task, and those of the tasks' own packages."""
    start = Path("stages") / f"{stage}.py"
    if not (root / start).exists():
        raise CastawayError(f"{start} does not exist, though dvc.yaml names the stage {stage}")
    common = with_data(root, follow(root, [start]))
    if REGISTRY not in common:
        return common, frozenset()
    packages = [ENVIRONMENTS / task for task in of_tasks]
    modules = [path for package in packages for path in sources(root, package) if path.suffix == ".py"]
    everything = with_data(root, follow(root, [start, *modules]))
    own = {path for path in everything - common if any(package in path.parents for package in packages)}
    return everything - own, frozenset(own)


def tasks(root: Path) -> list[str]:
    """The tasks that the registry can import."""
    return sorted(path.parent.name for path in (root / ENVIRONMENTS).glob("*/environment.py"))


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
