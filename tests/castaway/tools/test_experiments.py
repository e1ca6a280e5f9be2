"""The table of experiments, in a repository of its own."""

import json
from pathlib import Path

import pytest

from castaway.tools.experiment_builds import run_build, untracked
from castaway.tools.experiments import as_table, compared, experiments
from tests.castaway.command import castaway
from tests.castaway.figures import policy, save
from tests.miniature import commit, run

PARAMS = """\
seed: {seed}
bases: {{small: {{hub: some/model}}}}
tasks:
  one: {{task: strictbot, base: small, ppo: {{steps: {steps}}}}}
  two: {{task: strictbot, base: small}}
ppo: {{steps: 9}}
"""


def build(root: Path, seed: int, steps: int, rate: float) -> None:
    """Write what a build of the run `one` leaves in git, and commit it; `two` is never built."""
    (root / "params.yaml").write_text(PARAMS.format(seed=seed, steps=steps))
    policies = dict.fromkeys(("base", "sft", "ppo", "final"), policy(rate))
    save(root / "data/one/published/evaluate.json", {"figures": policies, "record": {}})
    commit(root, f"seed {seed}, {steps} steps")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A commit, and three experiments as DVC keeps them: two seeds of one setting, and another setting."""
    build(tmp_path, 1, 5, 0.6)
    first = run(tmp_path, "git", "rev-parse", "HEAD").strip()
    for name, seed, steps, rate in (("calm-sea", 2, 5, 0.5), ("red-sail", 1, 8, 0.9), ("old-rope", 3, 5, 0.7)):
        build(tmp_path, seed, steps, rate)
        run(tmp_path, "git", "update-ref", f"refs/exps/{first[:2]}/{first[2:]}/{name}", "HEAD")
        run(tmp_path, "git", "reset", "-q", "--hard", first)
    run(tmp_path, "git", "update-ref", "refs/exps/exec/EXEC_HEAD", "HEAD")
    return tmp_path


def test_seeds_are_folded_into_a_mean_with_its_interval(root: Path) -> None:
    assert sorted(name for name, _ in experiments(root)) == ["calm-sea", "old-rope", "red-sail"]
    best, other = compared(root, [])
    assert (best.experiments, list(best.figures)) == (["red-sail"], [1])
    final = best.success("final")
    assert (final.value, final.low, final.high) == (0.9, pytest.approx(0.85), pytest.approx(0.95))
    assert sorted(other.experiments) == ["calm-sea", "now", "old-rope"]
    assert sorted(other.figures) == [1, 2, 3]
    final = other.success("final")
    assert final.value == pytest.approx(0.6)
    # The standard deviation of 0.5, 0.6 and 0.7 is 0.1.
    assert final.high - 0.6 == pytest.approx(4.303 * 0.1 / 3**0.5, rel=1e-4)
    assert other.changed(best) == {"ppo.steps": 5}
    assert "ppo.steps=5" in as_table([best, other])


def test_a_build_takes_along_what_git_does_not_know(tmp_path: Path) -> None:
    """A model in the repository, and the link to a plug-in beside it."""
    root = tmp_path / "clone"
    save(tmp_path / "plug/task.py", "x")
    save(root / ".gitignore", "/models\n/.plugins\n")
    save(root / "models/own/config.json", "{}")
    (root / ".plugins").mkdir()
    (root / ".plugins/toy").symlink_to(tmp_path / "plug")
    blocks = {"path": "models/own", "code": "models/own"}, {"code": ".plugins/toy"}, {"code": "dvc.yaml"}
    params = {"bases": {"own": blocks[0], "far": {"path": "/models"}}, "tasks": {"a": blocks[1], "b": blocks[2]}}
    stage = {"cmd": "cat models/own/* .plugins/toy/* > all", "deps": ["models/own", ".plugins/toy"], "outs": ["all"]}
    save(root / "params.yaml", params)
    save(root / "dvc.yaml", {"stages": {"base": stage}})
    commit(root)
    run(root, "dvc", "init", "-q")
    commit(root)
    assert untracked(root, params) == [".plugins/toy", "models/own"]
    run_build(root, "bold-crew", {}, "base")
    assert [name for name, _ in experiments(root)] == ["bold-crew"]


def test_the_same_build_counts_once(root: Path) -> None:
    (row,) = compared(root, ["HEAD", "now"])
    assert (row.experiments, list(row.figures)) == (["HEAD", "now"], [1])
    assert row.success("final").low == pytest.approx(0.55)


def test_what_other_code_built_with_the_same_parameters_has_a_row_of_its_own(root: Path) -> None:
    build(root, 1, 5, 0.4)
    assert [(row.experiments, row.success("final").value) for row in compared(root, ["HEAD~1", "now", "HEAD"])] == [
        (["HEAD~1"], 0.6),
        (["now", "HEAD"], 0.4),
    ]


def test_the_command(root: Path) -> None:
    shown = castaway("compare", at=root)
    assert shown.exit_code == 0 and "| red-sail" in shown.output and "90.0 % (85.0 to 95.0)" in shown.output
    rows = json.loads(castaway("compare", "now", "--json", "--run", "one", "--root", str(root)).output)
    assert [(row["run"], row["success"]["sft"]["success_rate"]) for row in rows] == [("one", 0.6)]


@pytest.mark.parametrize(
    ("words", "told"), [(["no-such"], "no-such is no revision with a params.yaml"), (["now", "--run", "two"], "of two")]
)
def test_what_is_not_there_is_told(root: Path, words: list[str], told: str) -> None:
    result = castaway("compare", *words, "--root", str(root))
    assert result.exit_code == 2 and told in result.output
