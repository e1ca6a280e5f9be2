"""`dvc plots show` draws every plot of dvc.yaml, by the templates in .dvc/plots, from curves as stages write them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from castaway.metrics.policies import POLICIES
from flows.records import Curves

ROOT = Path(__file__).parents[2]
PLOTS: dict[str, Any] = {
    name: plot for one in YAML(typ="safe").load(ROOT / "dvc.yaml")["plots"] for name, plot in one.items()
}
STEPS = 4


def columns(plot: dict[str, Any]) -> dict[str, list[str]]:
    """Path of a file to the columns that are drawn from it."""
    return {path: [names] if isinstance(names, str) else names for path, names in plot["y"].items()}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `dvc plots show --json` says, of curves of which some begin late."""
    root = tmp_path_factory.mktemp("plots")
    for name in ("params.yaml", "dvc.yaml", "dvc.lock", ".dvcignore"):
        shutil.copy(ROOT / name, root)
    shutil.copytree(ROOT / ".dvc", root / ".dvc", ignore=shutil.ignore_patterns("tmp", "cache"))
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    wanted: dict[str, set[str]] = {}
    for plot in PLOTS.values():
        for path, names in columns(plot).items():
            wanted.setdefault(path, set()).update(names)
    for path, names in wanted.items():
        curves = Curves(root / "journal")
        for step in range(STEPS):
            curves.add(step, {name: step / 4 for name in names if step or name != "sft_loss"})
        curves.write(root / path)
        curves.forget()
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "plots", "show", "--json", "--out", str(root / "pages")],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_nothing_is_left_out(drawn: dict[str, Any]) -> None:
    assert not drawn.get("errors")


@pytest.mark.parametrize("name", PLOTS)
def test_a_panel_has_the_points_of_its_run(drawn: dict[str, Any], name: str) -> None:
    (found,) = drawn["data"][name]
    content = found["content"] if isinstance(found["content"], dict) else json.loads(found["content"])
    assert "<DVC" not in json.dumps(content)
    assert (content["title"], content["facet"]["field"]) == (PLOTS[name]["title"], "run")
    points = {(one["filename"], one["field"], one["step"]) for one in content["data"]["values"]}
    assert points == {
        (path.removeprefix("data/"), column, step)
        for path, names in columns(PLOTS[name]).items()
        for column in names
        for step in range(STEPS)
    }


def test_the_template_knows_the_policies() -> None:
    text = (ROOT / ".dvc/plots/policies.json").read_text("utf-8")
    assert f"[{', '.join(repr(policy) for policy in POLICIES)}][datum" in text
    assert {"success_rate", "success_rate_low", "success_rate_high"} <= {
        layer["encoding"][axis]["field"]
        for layer in json.loads(text)["spec"]["layer"]
        for axis in ("y", "y2")
        if axis in layer["encoding"]
    }
