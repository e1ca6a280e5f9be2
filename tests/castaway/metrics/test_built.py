"""Figures and records come from what DVC restored, or from git where that is of the same build."""

from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.metrics.built import built, from_stage, locked_entries, stage_key
from tests.castaway.figures import save
from tests.miniature import commit

LOCK = """\
schema: '2.0'
stages:
  sft@one:
    cmd: {cmd}
    outs: [{{path: data/one/sft, md5: {cmd}}}, {{path: data/one/runs/sft.json, md5: r}}]
"""


def found(cmd: str) -> dict[str, object]:
    """What a build with this command publishes."""
    key = stage_key(locked_entries(LOCK.format(cmd=cmd))["sft@one"])
    return {"figures": {"loss": cmd}, "record": {"stage_key": key}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository without DVC's cache, with two commits."""
    for cmd in ("first", "second"):
        save(tmp_path / "data/one/published/sft.json", found(cmd))
        save(tmp_path / "dvc.lock", LOCK.format(cmd=cmd))
        commit(tmp_path)
    return tmp_path


def test_git_alone_knows_what_was_built(root: Path) -> None:
    assert built(root, "one", "sft").figures == {"loss": "second"}
    assert built(root, "one", "sft", "HEAD~1").figures == {"loss": "first"}
    assert from_stage(root, "one", "sft", lambda figures: figures["loss"]) == "second"


def test_what_is_published_of_another_build_is_nothing(root: Path) -> None:
    (root / "dvc.lock").write_text(LOCK.format(cmd="third"))
    assert not built(root, "one", "sft")
    with pytest.raises(CastawayError, match=r"no figures of sft@one in .*; `dvc repro sft@one` builds them"):
        from_stage(root, "one", "sft", dict)


def test_what_dvc_restored_goes_before_what_is_published_of_another_build(root: Path) -> None:
    third = found("third")
    save(root / "data/one/figures/sft.json", third["figures"])
    save(root / "data/one/runs/sft.json", third["record"])
    # Git checked out, DVC not yet: the files of DVC are the ones that are left over.
    assert built(root, "one", "sft").figures == {"loss": "second"}
    (root / "dvc.lock").write_text(LOCK.format(cmd="third"))
    assert built(root, "one", "sft").figures == {"loss": "third"}
