"""The ancestry of what was built, from the files of a repository of its own."""

import hashlib
import json
from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.metrics.built import locked_stages
from castaway.tools.lineage import OLDER, ancestry, wanted
from tests.castaway.command import castaway
from tests.castaway.figures import save
from tests.miniature import commit

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
    cmd: python -m flows sft@one
    deps: [{path: stages/sft.py, md5: c}, {path: data/small/base, md5: bbbbbbbb1}]
    outs: [{path: data/one/sft, md5: ssssssss1}]
  ppo@one:
    cmd: python -m flows ppo@one
    deps: [{path: data/small/base, md5: bbbbbbbb1}, {path: data/one/sft, md5: ssssssss1}]
    params: {params.yaml: {ppo.steps: 9, ppo.rate: 0.5, seed: 1, tasks.one.ppo: {steps: 8}}}
    outs: [{path: data/one/ppo, md5: pppppppp1}]
  evaluate@one:
    cmd: python -m flows evaluate@one
    deps: [{path: data/one/ppo, md5: pppppppp1}, {path: data/one/sft, md5: older}]
    outs:
    - {path: data/one/evaluate, md5: eeeeeeee1}
    - {path: data/one/figures/evaluate.json, md5: METRICS}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    save(tmp_path / "params.yaml", PARAMS.format(seed=2))
    lock = LOCK.replace("METRICS", hashlib.md5(METRICS.encode(), usedforsecurity=False).hexdigest())
    save(tmp_path / "dvc.lock", lock)
    save(tmp_path / "data/one/figures/evaluate.json", METRICS)
    stages = locked_stages(tmp_path)

    def record(address: str, **facts: object) -> None:
        name, _, run = address.partition("@")
        content = {"revision": "0123456789abcdef+dirty", "began": "2026-01-02", "device": "CPU", **facts}
        save(tmp_path / "data" / run / "runs" / f"{name}.json", content)

    record("base@small", run_id="basebase", stage_key=stages["base@small"].key)
    record("sft@one", run_id="wrongrun", stage_key="other", outputs={"data/one/sft": "another"})
    record("ppo@one", run_id="pporun", stage_key="other", model_id="m-1234567", outputs={"data/one/ppo": "pppppppp1"})
    record("evaluate@one", run_id="evalrun", stage_key=stages["evaluate@one"].key)
    commit(tmp_path)
    return tmp_path


def shown(root: Path, *arguments: str) -> str:
    result = castaway("lineage", *arguments, "--root", str(root))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("", "evaluate@one"),
        ("small", "base@small"),
        ("one/ppo", "ppo@one"),
        ("./data/one/ppo/deep/model.safetensors", "ppo@one"),
        ("data/one/figures/evaluate.json", "evaluate@one"),
        ("pppppp", "ppo@one"),
        ("m-1234567", "ppo@one"),
        ("pporun", "ppo@one"),
    ],
)
def test_what_a_target_names(root: Path, target: str, address: str) -> None:
    assert wanted(locked_stages(root), target) == [address]


@pytest.mark.parametrize("target", ["two", "ppppp", "data/one/pp"])
def test_an_unknown_target_is_told(root: Path, target: str) -> None:
    with pytest.raises(CastawayError, match=f"dvc.lock has no stage, run, output or hash {target}; (did|expected one)"):
        wanted(locked_stages(root), target)


def test_a_stage_names_its_run_parameters_and_figures(root: Path) -> None:
    known = {one.stage: one for one in ancestry(root, locked_stages(root), "evaluate@one")}
    assert list(known) == ["evaluate@one", "ppo@one", "base@small", "sft@one"]
    assert (known["base@small"].run, known["base@small"].exact) == ("basebase", True)
    assert known["base@small"].params == {"seed": ("2", "1")}
    assert known["ppo@one"].params == {"ppo.steps": ("7", "8"), "seed": ("2", "1")}
    assert known["evaluate@one"].metrics == {"sft.success_rate": 0.5, "final.success_rate": 0.75}
    (root / "data/one/runs/evaluate.json").write_text('{"stage_key": "other"}')
    assert ancestry(root, locked_stages(root), "evaluate@one")[0].metrics == {}


def test_a_run_is_named_only_if_it_made_these_outputs(root: Path) -> None:
    known = {one.stage: one for one in ancestry(root, locked_stages(root), "evaluate@one")}
    assert (known["ppo@one"].run, known["ppo@one"].exact) == ("pporun", False)  # as after `dvc commit`
    assert (known["sft@one"].run, known["sft@one"].commit) == ("", "")


def test_what_was_built_again_alone_is_no_ancestor(root: Path) -> None:
    """The present sft is not the one that the evaluation has read, though it lies in the same place."""
    ((evaluate, *ancestors),) = json.loads(shown(root, "--json"))
    assert evaluate["inputs"] == {"data/one/ppo": "pppppppp1", "data/one/sft": "older"}
    assert [one["stage"] for one in ancestors] == ["ppo@one", "base@small", "sft@one"]
    known = ancestry(root, locked_stages(root), "evaluate@one")[0]
    assert known.makers == {"data/one/ppo": "ppo@one"}
    assert f"data/one/sft is another one now: {OLDER}" in " ".join(shown(root).split())


def test_nothing_built_is_told(tmp_path: Path) -> None:
    with pytest.raises(CastawayError, match=r"there is no dvc\.lock"):
        locked_stages(tmp_path)
