"""The runs of a profile are built in a copy, shown, and built once; the repository stays as it was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.tools.profiles import FOLDER as PROFILES
from castaway.tools.profiles import copy_files
from flows.profile import main
from tests.flows.conftest import ROOT, Repository
from tests.miniature import STAGES, copy_tree, run, set_params

ADDRESSES = sorted(["base@novice", *(f"{stage}@tic_tac_toe" for stage in STAGES)])
SMALLER: dict[str, object] = {
    "bases.novice.text.openspiel.episodes": 12,
    "dataset.episodes": 40,
    "dataset.demonstrations": 48,
    "dataset.pairs": 64,
    "dataset.held_out_pairs": 32,
    "ppo.steps": 2,
    "ppo.rollout.episodes_per_step": 4,
    "ppo.validation.episodes": 4,
    "evaluate.episodes": 8,
    "evaluate.further_episodes": 2,
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
    found = re.findall(rf"^(\d)/8  (\S+)  {state}  [\d.]+ s(?:  .+)?$", output, re.MULTILINE)
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
    _, _, last = output.partition("\nstage ")
    assert max(map(len, last.split("\n"))) <= 80
    assert re.search(r"^correction_sft@tic_tac_toe  Ran +[\d.]+  new$", last, re.MULTILINE)
    rows = re.findall(r"^tic_tac_toe  (\w+) +[\d.]+ % \([\d.]+ to [\d.]+\) +[\d.]+ % +8$", last, re.MULTILINE)
    assert rows == ["sft", "ppo", "final"]
    assert re.search(r"^tic_tac_toe: [\d.]+ % after SFT, [\d.]+ % after PPO: the intervals ", last, re.MULTILINE)
    assert re.search(r"^The model plays [xo] against a random player: .+\n1 x     2 o  ", last, re.MULTILINE)
    assert "  make ui ROOT=scratch/params " in last
    assert (clone / "scratch/params/mlflow.db").is_file()

    output = run(clone, *demo)
    assert ended(output, "Cached") == ADDRESSES and ended(output, "Ran") == []
    assert "Everything is up to date, nothing was built." in output

    assert {path: path.read_bytes() for path in before} == before
    new = [path for path in clone.rglob("*") if path.is_file() and path not in before]
    assert {path.relative_to(clone).parts[0] for path in new if "__pycache__" not in path.parts} <= {"scratch", ".git"}


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
    changes = {"ppo.tokens_per_pass": 10**9, "ppo.minibatch_turns": 10**8, "ppo.rollout.episodes_per_step": 10**8}
    set_params(clone / "huge", {**changes, "base.hidden_size": 512})
    done = Repository(clone).run("flows", "profile", "huge/params.yaml")
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(
        r"error: does not fit: ppo@tic_tac_toe needs about [\d.]+ GiB, this host has [\d.]+ GiB; lower \S+.*\n",
        done.stderr,
    )
    assert not (clone / "scratch/params/data").exists()


def test_what_is_missing_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CastawayError, match=r"no profile or file of parameters 'no'; expected one of none"):
        main(tmp_path, "no")
    (tmp_path / "params.yaml").write_text("")
    with pytest.raises(CastawayError, match=r"git cannot list the files in .*; use a git clone"):
        main(tmp_path, str(tmp_path / "params.yaml"))
