"""`dvc plots show` draws every plot of dvc.yaml, by the templates in .dvc/plots, from curves as stages write them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dvc.repo import Repo

from castaway.tracking.records import Curves

ROOT = Path(__file__).parents[2]
STEPS = 4
OF_PPO = ("mean_return", "success_rate", "sft_loss")


@pytest.fixture(scope="module")
def curves() -> dict[str, dict[str, Any]]:
    """What dvc.yaml says of every curve file."""
    return {out.def_path: out.plot for stage in Repo(str(ROOT)).index.stages for out in stage.outs if out.plot}


@pytest.fixture(scope="module")
def drawn(curves: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `dvc plots show --json` says, of curves of which some begin late."""
    root = tmp_path_factory.mktemp("plots")
    for name in ("params.yaml", "dvc.yaml", "dvc.lock", ".dvcignore"):
        shutil.copy(ROOT / name, root)
    shutil.copytree(ROOT / ".dvc", root / ".dvc", ignore=shutil.ignore_patterns("tmp", "cache"))
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    for path, plot in curves.items():
        names = OF_PPO if plot["template"] == "ppo" else [plot["y"]]
        written = Curves(root / "journal")
        for step in range(STEPS):
            written.add(step, {name: step / 4 for name in names if step or name != "sft_loss"})
        written.write(root / path)
        written.forget()
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "plots", "show", "--json", "--out", str(root / "pages")],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_curve_is_drawn(curves: dict[str, dict[str, Any]], drawn: dict[str, Any]) -> None:
    assert not drawn.get("errors")
    assert set(drawn["data"]) == set(curves) and len(curves) > 10
    for path, plot in curves.items():
        (found,) = drawn["data"][path]
        content = found["content"] if isinstance(found["content"], dict) else json.loads(found["content"])
        assert "<DVC" not in json.dumps(content)
        values = content["data"]["values"]
        assert [one["step"] for one in values] == list(range(STEPS))
        assert all(plot["y"] in one for one in values)
        assert "sft_loss" in values[-1] or plot["template"] != "ppo"


def test_the_template_of_ppo_names_what_ppo_logs() -> None:
    text = (ROOT / ".dvc/plots/ppo.json").read_text("utf-8")
    columns = json.loads((ROOT / "data/strictbot/plots/ppo.json").read_text("utf-8"))[0]
    (fold,) = (one["fold"] for one in json.loads(text)["transform"] if "fold" in one)
    assert {*fold} - {"<DVC_METRIC_Y>"} <= {*columns}
