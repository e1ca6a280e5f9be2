"""The runs of a profile are built in a copy, shown, and built once; the repository stays as it was."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from castaway.tools.profiles.files import FOLDER as PROFILES
from flows.profile import copy_files, main, table_of, what_next
from tests.castaway.figures import policy
from tests.miniature import STAGES, copy_tree, environment, run, set_params

ROOT = Path(__file__).parents[2]
ADDRESSES = sorted(["base@answers", *(f"{stage}@strictbot" for stage in STAGES)])
SMALLER: dict[str, object] = {
    "bases.answers.text.strictbot.episodes": 3,
    "dataset.episodes": 3,
    "dataset.demonstrations": 48,
    "dataset.pairs": 64,
    "dataset.held_out_pairs": 32,
    "ppo.steps": 2,
    "ppo.episodes_per_step": 4,
    "evaluate.episodes": 8,
}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The repository, committed, with things that were built and that the demo must not touch."""
    copy_tree(tmp_path)
    (tmp_path / "dvc.lock").write_text("the user's\n")
    (tmp_path / "data/strictbot").mkdir(parents=True)
    (tmp_path / "data/strictbot/model").write_text("the user's\n")
    run(tmp_path, "git", "init", "-q")
    run(tmp_path, "git", "add", "-A", "-f")
    run(tmp_path, "git", "commit", "-qm", "Everything")
    return tmp_path


def ended(output: str, state: str) -> list[str]:
    """The stages that ended in this state."""
    found = re.findall(rf"^(\d)/8  (\S+)  {state}  [\d.]+ s$", output, re.MULTILINE)
    assert [number for number, _ in found] == sorted({number for number, _ in found})
    return sorted(address for _, address in found)


@pytest.mark.slow
def test_it_is_built_once_and_shown(clone: Path) -> None:
    smaller = clone / "smaller"
    smaller.mkdir()
    profile = smaller / "params.yaml"
    profile.write_bytes((ROOT / PROFILES / "demo.yaml").read_bytes())
    set_params(smaller, SMALLER)
    demo = ["python", "-m", "flows", "profile", "smaller/params.yaml"]
    before = {path: path.read_bytes() for path in clone.rglob("*") if path.is_file() and ".git" not in path.parts}

    output = run(clone, *demo)
    assert ended(output, "Ran") == ADDRESSES
    assert len(re.findall(r"^\| (?:base|sft|ppo|final) +\| +[\d.]+ % \([\d.]+ to [\d.]+\) ", output, re.MULTILINE)) == 4
    assert re.search(r"^  tutor_\d+ is asked: .+\n      known: .+\n  tutor_\d+: ", output, re.MULTILINE)
    assert re.search(r"^Built in \d+ seconds\.$", output, re.MULTILINE)
    assert "castaway chat --run strictbot --root scratch/params " in output
    assert (clone / "scratch/params/mlflow.db").is_file()

    output = run(clone, *demo)
    assert ended(output, "Cached") == ADDRESSES and ended(output, "Ran") == []
    assert "Everything is up to date, nothing was built." in output

    # A stage that fails is named with its log.
    set_params(smaller, {"merge.tolerance": 1e-30})
    done = subprocess.run(demo, cwd=clone, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2 and ended(done.stdout, "Failed") == ["merge@strictbot"]
    assert sorted([*ended(done.stdout, "Cached"), "merge@strictbot"]) == ADDRESSES
    assert re.match(r"error: in scratch/params, merge@strictbot failed .*scratch/logs/merge@strictbot.log", done.stderr)

    after = {path: path.read_bytes() for path in before if path != profile}
    assert after == {path: content for path, content in before.items() if path != profile}
    new = [path for path in clone.rglob("*") if path.is_file() and path not in before]
    assert {path.relative_to(clone).parts[0] for path in new if "__pycache__" not in path.parts} <= {"scratch", ".git"}


@pytest.mark.parametrize("path", sorted((ROOT / PROFILES).glob("*.yaml")), ids=lambda path: path.stem)
def test_every_profile_is_complete(path: Path) -> None:
    assert read_params(path).tasks


def test_the_demo_has_one_run() -> None:
    params = read_params(ROOT / PROFILES / "demo.yaml")
    assert list(params.tasks) == ["strictbot"] and list(params.bases) == ["answers"] and params.threads == 1


def test_the_copy_follows_the_repository(clone: Path) -> None:
    place = clone / "scratch/demo"
    copy_files(clone, place)
    assert (place / "params.yaml").read_bytes() == (clone / "params.yaml").read_bytes()
    assert not (place / "dvc.lock").exists() and not (place / "data").exists()
    (place / "data").mkdir()
    (place / "data/built").write_text("stays")
    (clone / "stages/sft.py").unlink()
    (clone / "stages/new.py").write_text("x = 1\n")
    (clone / "stages/base.py").write_text("changed\n")
    copy_files(clone, place)
    assert not (place / "stages/sft.py").exists() and (place / "stages/new.py").exists()
    assert (place / "stages/base.py").read_text() == "changed\n" and (place / "data/built").exists()


def test_a_run_that_cannot_fit_is_refused_before_anything_is_built(clone: Path) -> None:
    (clone / "huge").mkdir()
    (clone / "huge/params.yaml").write_bytes((ROOT / PROFILES / "demo.yaml").read_bytes())
    changes = {"ppo.tokens_per_pass": 10**9, "ppo.minibatch_turns": 10**8, "ppo.episodes_per_step": 10**8}
    set_params(clone / "huge", {**changes, "base.hidden_size": 512})
    command = ["python", "-m", "flows", "profile", "huge/params.yaml"]
    done = subprocess.run(command, cwd=clone, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(
        r"error: does not fit: ppo@strictbot needs about [\d.]+ GB, this host has [\d.]+ GB; lower \S+.*\n", done.stderr
    )
    assert not (clone / "scratch/params/data").exists()


def test_what_is_missing_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        CastawayError, match=r"profiles/no\.yaml does not exist; name a profile \(none\) or a complete file"
    ):
        main(tmp_path, "no")
    (tmp_path / "params.yaml").write_text("")
    with pytest.raises(CastawayError, match=r"git cannot list the files in .*; use a git clone"):
        main(tmp_path, str(tmp_path / "params.yaml"))
    with pytest.raises(CastawayError, match="sft is missing"):
        table_of({"base": policy(0.5)})


def test_the_table_says_whether_the_difference_may_be_chance() -> None:
    figures = {"base": policy(0.1), "sft": policy(0.3), "ppo": policy(0.5), "final": policy(0.5)}
    told = table_of(figures)
    assert told.endswith("30.0 % after SFT, 50.0 % after PPO: the intervals do not overlap.")
    assert "correct facts" not in told
    assert "perhaps chance" in table_of({**figures, "ppo": policy(0.35)})
    with_facts = {name: {**one, "factual_accuracy": 0.25} for name, one in figures.items()}
    assert table_of(with_facts).count(" 25.0 % |") == 4


def test_only_a_run_that_one_can_talk_to_has_a_chat() -> None:
    params = read_params(ROOT / "params.yaml")
    told = what_next(Path.cwd() / "scratch/demo", params)
    assert re.findall(r"castaway chat --run (\w+)", told) == ["strictbot"]
