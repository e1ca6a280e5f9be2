"""A task from outside, as a stranger brings it: written, installed, built through all stages, and changed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.miniature import STAGES, commit, copy_tree, edited, environment, ran, run

pytestmark = pytest.mark.slow
OWN = ["base@lights_base", *(f"{stage}@lights" for stage in STAGES)]
PLAYING = ["base@lights_base", *(f"{stage}@lights" for stage in ("dataset", "reward_model", "ppo", "evaluate"))]
"""The stages that depend on the game's code: the others read what these have made of it."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with an environment of its own, which sees the installed packages of this one."""
    root = tmp_path_factory.mktemp("plugin") / "castaway"
    root.mkdir()
    copy_tree(root)
    venv.create(root / ".venv", with_pip=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(root / ".venv")}))
    (own / "shared.pth").write_text(f"{sysconfig.get_path('purelib')}\n", "utf-8")
    commit(root)
    return root


def in_venv(root: Path, *command: str) -> str:
    """A command of the clone's own environment, with that of this one behind it."""
    variables = environment()
    variables["PATH"] = f"{root / '.venv/bin'}:{Path(sys.executable).parent}:{variables['PATH']}"
    done = subprocess.run(command, cwd=root, env=variables, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def stale(root: Path) -> dict[str, object]:
    """The stages that DVC would build again, with the reasons."""
    found: dict[str, object] = json.loads(in_venv(root, "dvc", "status", "--json"))
    return found


def test_a_package_from_outside_is_built_and_watched(clone: Path) -> None:
    package = clone.parent / "castaway-lights"
    python = str(clone / ".venv/bin/python")
    shipped = stale(clone)

    # Written and installed; what is missing is told.
    in_venv(clone, python, "-m", "castaway.tools.cli.main", "task", "new", "lights", "--to", str(package))
    in_venv(clone, python, "-m", "pip", "install", "-q", "--no-deps", str(package))
    asked = [python, "-m", "castaway.tools.cli.main", "task", "check", "lights"]
    refused = subprocess.run(asked, cwd=clone, env=environment(), capture_output=True, text=True)
    assert refused.returncode == 2 and "params.yaml has no run of the task lights" in refused.stdout

    # Two blocks in params.yaml.
    blocks = re.search(r"```yaml\n(.*?)```", (package / "README.md").read_text("utf-8"), re.DOTALL)
    assert blocks
    added = YAML(typ="safe").load(blocks.group(1))
    with edited(clone / "params.yaml") as params:
        params["bases"] |= added["bases"]
        params["tasks"] |= added["tasks"]
    assert "keeps its contract" in in_venv(clone, *asked)
    changed = run(clone, "git", "status", "--porcelain").splitlines()
    assert changed == [" M params.yaml"]
    after = stale(clone)
    assert {address: after[address] for address in shipped} == shipped, "what was there before is as it was"

    # All eight stages, and a policy that is better than its SFT.
    assert sorted(ran(in_venv(clone, "dvc", "repro", "merge@lights", "evaluate@lights"))) == sorted(OWN)
    figures = json.loads((clone / "data/lights/figures/evaluate.json").read_text("utf-8"))
    assert figures["final"]["success_rate_low"] > figures["sft"]["success_rate_high"]
    record = json.loads((clone / "data/lights/runs/ppo.json").read_text("utf-8"))
    assert record["task_package"] == "castaway-lights 0.1.0"
    assert not set(OWN) & set(stale(clone))

    # A changed line in the package makes its own stages stale, and no others.
    game = package / "castaway_lights/game.py"
    game.write_text(game.read_text("utf-8") + "\n# a changed line\n", "utf-8")
    in_venv(clone, python, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", str(package))
    after = stale(clone)
    assert sorted(set(after) - set(shipped)) == sorted(PLAYING)
    assert {address: after[address] for address in shipped} == shipped
