"""Dependencies run one way: flows -> stages -> castaway; and the library knows neither DVC, Prefect nor MLflow."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = {
    "castaway": {"stages", "flows", "dvc", "prefect", "mlflow"},
    "stages": {"flows", "dvc", "prefect", "mlflow"},
    "flows": set[str](),
}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("layer", FORBIDDEN)
def test_no_layer_looks_up(layer: str) -> None:
    paths = sorted((ROOT / layer).rglob("*.py"))
    assert paths
    for path in paths:
        above = {name for name in imports(path) if name.split(".")[0] in FORBIDDEN[layer]}
        assert not above, f"{path.relative_to(ROOT)} imports {above}"


def test_learning_and_environments_meet_only_at_the_contract() -> None:
    for path in (ROOT / "castaway" / "rl").rglob("*.py"):
        inside = {name for name in imports(path) if name.startswith("castaway.envs.")}
        assert inside <= {"castaway.tasks.environment"}, path
    for path in (ROOT / "castaway" / "envs").rglob("*.py"):
        assert not {name for name in imports(path) if name.startswith("castaway.rl")}, path
