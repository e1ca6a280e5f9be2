"""The ancestry of what was built, from the files of a repository of its own."""

import hashlib
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from castaway.cli.main import app
from castaway.errors import CastawayError
from castaway.tools.lineage.ancestry import ancestry, wanted
from castaway.tools.lineage.locked import Locked, locked_stages
from castaway.tools.lineage.show import OLDER, Node
from tests.castaway.tools.marooned.replay.browser import chromium

HOSTILE = "<script>document.title = 'taken'</script>"
PARAMS = """\
seed: {seed}
bases: {{small: {{hub: some/model}}}}
tasks:
  one: {{task: strictbot, base: small, game: {{rendering: full}}, ppo: {{steps: 7}}}}
ppo: {{steps: 9, rate: 0.5}}
"""
METRICS = '{"sft": {"success_rate": 0.5, "turns": 3}, "final": {"success_rate": 0.75}, "note": "text"}'
LOCK = """\
schema: '2.0'
stages:
  base@small:
    cmd: python -m flows base@small
    params: {params.yaml: {seed: 1}}
    outs:
    - {path: data/small/base, md5: bbbbbbbb1}
    - {path: data/small/runs/base.json, md5: r}
  sft@one:
    cmd: 'python -m flows sft@one # sft: '
    deps: [{path: stages/sft.py, md5: c}, {path: data/small/base, md5: bbbbbbbb1}]
    outs: [{path: data/one/sft, md5: ssssssss1}]
  ppo@one:
    cmd: 'python -m flows ppo@one # ppo: --steps 8 --fair --no-quick --kinds a --kinds b evaluate: '
    deps: [{path: data/small/base, md5: bbbbbbbb1}, {path: data/one/sft, md5: ssssssss1}]
    params: {params.yaml: {ppo.steps: 9, ppo.rate: 0.5, seed: 1}}
    outs: [{path: data/one/ppo, md5: pppppppp1}]
  evaluate@one:
    cmd: 'python -m flows evaluate@one # evaluate: '
    deps: [{path: data/one/ppo, md5: pppppppp1}, {path: data/one/sft, md5: older}]
    outs:
    - {path: data/one/evaluate, md5: eeeeeeee1}
    - {path: data/one/metrics/evaluate.json, md5: METRICS}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    def write(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    write("params.yaml", PARAMS.format(seed=2))
    write("dvc.lock", LOCK.replace("METRICS", hashlib.md5(METRICS.encode(), usedforsecurity=False).hexdigest()))
    write("data/one/metrics/evaluate.json", METRICS)
    stages = locked_stages(tmp_path)

    def record(address: str, **facts: object) -> None:
        name, _, run = address.partition("@")
        content = {"revision": "0123456789abcdef+dirty", "began": "2026-01-02", "device": "CPU", **facts}
        write(f"data/{run}/runs/{name}.json", json.dumps(content))

    record("base@small", run_id="basebase", stage_key=stages["base@small"].key)
    record("sft@one", run_id="wrongrun", stage_key="other", outputs={"data/one/sft": "another"})
    record("ppo@one", run_id="pporun", stage_key="other", model_id="m-1234567", outputs={"data/one/ppo": "pppppppp1"})
    record("evaluate@one", run_id=HOSTILE, stage_key=stages["evaluate@one"].key)
    for command in (["init", "-q"], ["add", "params.yaml"], ["commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def shown(root: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["lineage", *arguments, "--root", str(root)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("", "evaluate@one"),
        ("one", "evaluate@one"),
        ("small", "base@small"),
        ("ppo@one", "ppo@one"),
        ("one/ppo", "ppo@one"),
        ("data/one/ppo/", "ppo@one"),
        ("./data/one/ppo/deep/model.safetensors", "ppo@one"),
        ("data/one/metrics/evaluate.json", "evaluate@one"),
        ("pppppp", "ppo@one"),
        ("m-1234567", "ppo@one"),
        ("pporun", "ppo@one"),
    ],
)
def test_what_a_target_names(root: Path, target: str, address: str) -> None:
    assert wanted(locked_stages(root), target) == [address]


@pytest.mark.parametrize("target", ["two", "one/merge", "ppppp", "data/one/pp"])
def test_an_unknown_target_is_told(root: Path, target: str) -> None:
    with pytest.raises(
        CastawayError, match=f"dvc.lock has no stage, run, output or hash {target}; its stages are base"
    ):
        wanted(locked_stages(root), target)


def test_a_stage_names_its_run_parameters_and_figures(root: Path) -> None:
    found = {one.stage: one for one in ancestry(root, locked_stages(root), "evaluate@one")}
    assert list(found) == ["evaluate@one", "ppo@one", "base@small", "sft@one"]
    assert (found["base@small"].run, found["base@small"].exact) == ("basebase", True)
    assert found["base@small"].params == {"seed": ("2", "1")}
    assert found["ppo@one"].params == {"ppo.steps": ("7", "8"), "seed": ("2", "1")}
    assert found["evaluate@one"].metrics == {"sft.success_rate": 0.5, "final.success_rate": 0.75}
    (root / "data/one/metrics/evaluate.json").write_text(METRICS.replace("0.5", "0.9"))
    assert ancestry(root, locked_stages(root), "evaluate@one")[0].metrics == {}


def test_a_run_is_named_only_if_it_made_these_outputs(root: Path) -> None:
    found = {one.stage: one for one in ancestry(root, locked_stages(root), "evaluate@one")}
    assert (found["ppo@one"].run, found["ppo@one"].exact) == ("pporun", False)  # as after `dvc commit`
    assert (found["sft@one"].run, found["sft@one"].commit) == ("", "")


def test_what_was_built_again_alone_is_no_ancestor(root: Path) -> None:
    """The present sft is not the one that the evaluation has read, though it lies in the same place."""
    found = ancestry(root, locked_stages(root), "evaluate@one")[0]
    assert found.makers == {"data/one/ppo": "ppo@one"}
    assert f"data/one/sft  md5 older  {OLDER}" in shown(root)


def test_the_tree_as_text(root: Path) -> None:
    lines = shown(root, "one/ppo").splitlines()
    assert lines[0] == (
        "data/one/ppo  md5 pppppppp1  run pporun  commit 0123456789+dirty  2026-01-02"
        "  (with other inputs, but the same outputs)"
    )
    assert lines[1] == "  params: ppo.steps 8 instead of 7, seed 1 instead of 2"
    assert lines[2] == "├── data/small/base  md5 bbbbbbbb1  run basebase  commit 0123456789+dirty  2026-01-02"
    assert lines[-2:] == ["└── data/one/sft  md5 ssssssss1  run unknown", "    └── data/small/base (see above)"]


def test_the_tree_for_programs(root: Path) -> None:
    ((evaluate, *ancestors),) = json.loads(shown(root, "--json"))
    assert evaluate["outputs"]["data/one/evaluate"] == "eeeeeeee1"
    assert evaluate["inputs"] == {"data/one/ppo": "pppppppp1", "data/one/sft": "older"}
    assert [one["stage"] for one in ancestors] == ["ppo@one", "base@small", "sft@one"]


def test_the_page_shows_hostile_text_as_text_and_fits_a_phone(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert shown(root, "--html", str(file)) == f"{file}\n"
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 380, "height": 700})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri())
        assert page.title() == "Lineage of every run"
        assert HOSTILE in page.inner_text("body")
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
        assert page.locator("article").count() == 6
        # A branch can be closed by the keyboard alone.
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.locator("article:visible").count() == 1
        assert asked == [file.as_uri()]


def test_a_page_that_cannot_be_written_is_told(root: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "no" / "page.html")
    result = CliRunner().invoke(app, ["lineage", "--html", place, "--root", str(root)])
    assert isinstance(result.exception, SystemExit) and result.exit_code == 2
    assert f"{place} cannot be written: No such file" in result.output


def test_overrides_are_read_as_dvc_writes_them() -> None:
    keys = ("ppo.steps", "ppo.fair", "ppo.quick", "ppo.kinds", "ppo.lora.rank", "dataset.rate", "dataset.name")
    cmd = (
        "python -m flows evaluate@one # evaluate:  dataset: --rate 1e-3 --name 'two words'"
        " ppo: --steps 8 --fair --no-quick --kinds a b --lora.rank -1"
    )
    entry = {"cmd": cmd, "params": {"params.yaml": dict.fromkeys(keys)}}
    assert Locked("evaluate@one", entry, {}).params == {
        "ppo.steps": 8,
        "ppo.fair": True,
        "ppo.quick": False,
        "ppo.kinds": ["a", "b"],
        "ppo.lora.rank": -1,
        "dataset.rate": 0.001,
        "dataset.name": "two words",
    }


def test_nothing_built_is_told(tmp_path: Path) -> None:
    with pytest.raises(CastawayError, match=r"there is no dvc\.lock"):
        locked_stages(tmp_path)


def test_counts_are_shown_in_full() -> None:
    figures = {"examples": 12000, "loss": 0.184921}
    ancestor = SimpleNamespace(metrics=figures)
    assert Node("data/marooned/sft", "", cast(Any, ancestor), False, []).metrics == "examples 12000, loss 0.1849"
