"""What differs between two runs or revisions, in a repository of its own."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from castaway.cli.main import app
from castaway.errors import CastawayError
from castaway.tools.differences import compare, effective

PARAMS = """\
seed: 1
bases:
  small: {{hub: some/model}}
tasks:
  one: {{task: strictbot, base: small, game: {{rendering: full}}, ppo: {{steps: {steps}}}}}
  two: {{task: strictbot, base: small, game: {{rendering: full}}}}
ppo: {{steps: 9, lora: {{rank: 8}}}}
"""
LOCK = """\
schema: '2.0'
stages:
  base@small:
    deps: [{{path: stages/base.py, md5: b}}]
    outs: [{{path: data/small/base, md5: w}}]
  ppo@one:
    deps: [{{path: stages/ppo.py, md5: {code}}}, {{path: data/one/sft, md5: s}}]
    outs: [{{path: data/one/ppo, md5: {weights}}}, {{path: data/one/metrics/ppo.json, md5: m}}]
  ppo@two:
    deps: [{{path: stages/ppo.py, md5: {code}}}]
    outs: [{{path: data/two/ppo, md5: x}}]
"""


def commit(root: Path, steps: int, code: str, weights: str, rate: float) -> None:
    """Write what a build of the run `one` leaves in git, and commit it."""
    (root / "params.yaml").write_text(PARAMS.format(steps=steps))
    (root / "dvc.lock").write_text(LOCK.format(code=code, weights=weights))
    folder = root / "data/one/metrics"
    folder.mkdir(parents=True, exist_ok=True)
    sft = {"success_rate": 0.5, "success_rate_low": 0.45, "success_rate_high": 0.55}
    final = {"success_rate": rate, "success_rate_low": rate - 0.03, "success_rate_high": rate + 0.03}
    (folder / "evaluate.json").write_text(json.dumps({"sft": sft, "final": final}))
    for command in (["add", "-A"], ["commit", "-qm", f"{steps} steps"]):
        subprocess.run(["git", *command], cwd=root, check=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    commit(tmp_path, 5, "old", "v", 0.60)
    commit(tmp_path, 7, "new", "w", 0.80)
    return tmp_path


def test_two_revisions_of_a_run(root: Path) -> None:
    one, two = compare(root, "HEAD~1", "HEAD")
    assert one.params == {"ppo.steps": ("5", "7")}
    assert one.code == ["stages/ppo.py"]
    assert one.data == ["ppo"]
    assert one.results == [
        ("sft", "50.0 % (45.0 to 55.0)", "50.0 % (45.0 to 55.0)", "same"),
        ("final", "60.0 % (57.0 to 63.0)", "80.0 % (77.0 to 83.0)", "apart"),
    ]
    # The other run has other code, and neither other parameters nor outputs.
    assert (two.params, two.code, two.data, two.results) == ({}, ["stages/ppo.py"], [], [])
    assert one.report().splitlines()[:5:2] == [
        "HEAD~1:one -> HEAD:one",
        "| parameter | HEAD~1:one | HEAD:one |",
        "| ppo.steps | 5          | 7        |",
    ]


def test_two_runs_of_the_working_tree_and_the_overrides_of_one(root: Path) -> None:
    (found,) = compare(root, "two", "one")
    assert found.params == {"ppo.steps": ("9", "7")}
    # What only one of them has counts too.
    assert found.data == ["ppo"]
    (found,) = compare(root, "HEAD~1:one", "one")
    assert found.params == {"ppo.steps": ("5", "7")}


def test_nothing_differs_from_itself(root: Path) -> None:
    assert not any(compare(root, "HEAD", "now"))
    runner = CliRunner()
    same = runner.invoke(app, ["diff", "--root", str(root)])
    assert same.exit_code == 0
    assert same.output.splitlines()[0] == "HEAD:one and now:one have the same parameters, code and data."
    other = runner.invoke(app, ["diff", "HEAD~1:one", "one", "--json", "--root", str(root)])
    assert other.exit_code == 1
    (found,) = json.loads(other.output)
    assert found["params"] == {"ppo.steps": ["5", "7"]} and found["success"][1]["intervals"] == "apart"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("HEAD", "moon", "there is no run and no revision moon; name a run, a revision, or REVISION:RUN"),
        ("--output=x", "HEAD", "there is no run and no revision --output=x; name a run, a revision, or REVISION:RUN"),
        ("HEAD:three", "one", "HEAD has no run three; it has one, two"),
    ],
)
def test_what_is_not_there_is_one_sentence(root: Path, before: str, after: str, told: str) -> None:
    with pytest.raises(CastawayError) as caught:
        compare(root, before, after)
    assert str(caught.value) == told


def test_an_override_replaces_its_key_as_a_whole() -> None:
    document = {"ppo": {"steps": 9, "lora": {"rank": 8, "alpha": 8}}, "tasks": {"one": {"ppo": {"lora": {"rank": 2}}}}}
    assert effective(document, "one") == {"ppo.steps": 9, "ppo.lora.rank": 2}
