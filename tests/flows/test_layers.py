"""Dependencies run one way: flows -> stages -> castaway, and inside castaway between rooms, without a circle."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = {
    "castaway": {"stages", "flows", "prefect"},
    "stages": {"flows", "dvc", "prefect", "mlflow"},
    "flows": set[str](),
}
MOST_ROOMS, MOST_ARROWS = 18, 75
CONTRACTS = {f"castaway.tasks.{name}" for name in ("environment", "intervals", "reply", "task", "verdict")}
"""What playing and learning may know of tasks."""


def imports(path: Path) -> set[str]:
    """The modules that a file imports; `from castaway import rl` counts as `castaway.rl` too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def within(names: set[str], package: str) -> set[str]:
    return {name for name in names if name == package or name.startswith(f"{package}.")}


@pytest.mark.parametrize("layer", FORBIDDEN)
def test_no_layer_looks_up(layer: str) -> None:
    paths = sorted((ROOT / layer).rglob("*.py"))
    assert paths
    for path in paths:
        above = {name for name in imports(path) if name.split(".")[0] in FORBIDDEN[layer]}
        assert not above, f"{path.relative_to(ROOT)} imports {above}"


def test_only_one_room_of_the_library_knows_dvc_and_mlflow() -> None:
    for path in (ROOT / "castaway").rglob("*.py"):
        if "tracking" not in path.parts:
            known = {name for name in imports(path) if name.split(".")[0] in ("dvc", "mlflow")}
            assert not known | within(imports(path), "castaway.tracking"), path


def test_learning_and_games_meet_only_at_the_contract() -> None:
    learning = [path for room in ("rl", "rollout") for path in (ROOT / "castaway" / room).rglob("*.py")]
    for path in learning:
        named = {name for name in within(imports(path), "castaway.tasks") if name not in CONTRACTS}
        assert all(any(name.startswith(f"{one}.") for one in CONTRACTS) for name in named), path
        assert not within(imports(path), "castaway.envs"), path
    for path in (ROOT / "castaway" / "envs").rglob("*.py"):
        assert not within(imports(path), "castaway.rl") | within(imports(path), "castaway.rollout"), path


def test_a_game_knows_no_other() -> None:
    for game in (path.parent for path in (ROOT / "castaway" / "envs").glob("*/__init__.py")):
        for path in game.rglob("*.py"):
            others = {name for name in within(imports(path), "castaway.envs") if name.count(".") > 1}
            assert all(name.split(".")[2] == game.name for name in others), path


def rooms(package: Path) -> dict[str, set[str]]:
    """The rooms of a package, folders and modules beside them, each with those that it imports from."""
    found: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        if inside.name != "__init__.py" or len(inside.parts) > 1:
            own = Path(inside.parts[0]).stem
            found.setdefault(own, set()).update(_entered(path, package.name) - {own})
    return {room: entered & set(found) for room, entered in found.items()}


def _entered(path: Path, package: str) -> set[str]:
    return {name.split(".")[1] for name in within(imports(path), package) if "." in name}


def test_the_rooms_have_no_circle_and_are_few() -> None:
    found = rooms(ROOT / "castaway")
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of rooms: {' -> '.join(error.args[1])}")
    assert len(found) <= MOST_ROOMS, sorted(found)
    assert sum(map(len, found.values())) <= MOST_ARROWS, found
