"""A model is uploaded with its card by the Hub's client, whose requests are kept instead of sent."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import HfApi

from castaway.config.errors import CastawayError
from castaway.tools.publish import publish, upload_of
from tests.castaway.command import castaway, told
from tests.castaway.figures import EVALUATE, save

LOCK = """\
schema: '2.0'
stages:
  merge@one:
    cmd: 'python -m flows merge@one # merge: '
    outs: [{path: data/one/merge, md5: mmmmmmmm1}]
"""
CARD = """\
---
library_name: transformers
base_model: tiny
---

# Castaway: one

from_pretrained("data/one/merge")
"""
ADDRESS = "https://hub.example.org/you/one/commit/1"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the Hub is asked for: the repository that is created, and the files of the commit."""
    requests: dict[str, Any] = {}

    def create_repo(api: HfApi, repository: str, **options: Any) -> None:
        requests[repository] = options

    def create_commit(api: HfApi, repository: str, operations: Any, **options: Any) -> SimpleNamespace:
        for one in operations:
            with one.as_file() as file:
                requests[one.path_in_repo] = file.read()
        return SimpleNamespace(commit_url=ADDRESS)

    monkeypatch.setattr(HfApi, "create_repo", create_repo)
    monkeypatch.setattr(HfApi, "create_commit", create_commit)
    return requests


@pytest.fixture
def root(tmp_path: Path) -> Path:
    record = {"run_id": "therun", "revision": "c" * 40, "stage_key": "x", "began": "2026-01-02"}
    for path, content in {
        "dvc.lock": LOCK,
        "params.yaml": "seed: 1\n",
        "data/one/merge/README.md": CARD,
        "data/one/merge/config.json": "{}",
        "data/one/merge/model.safetensors": "weights",
        "data/one/merge/notes.bak": "no part of it",
        "data/one/figures/evaluate.json": EVALUATE,
        "data/one/runs/merge.json": {**record, "outputs": {"data/one/merge": "mmmmmmmm1"}},
    }.items():
        save(tmp_path / path, content)
    return tmp_path


def test_a_model_is_uploaded_with_its_lineage(root: Path, asked: dict[str, Any]) -> None:
    done = castaway("push", "one", "you/one", "--yes", "--root", str(root))
    assert (done.exit_code, done.stdout) == (0, f"{ADDRESS}\n")
    assert asked.pop("you/one")["private"] is True
    assert set(asked) == {"README.md", "config.json", "model.safetensors"} and asked["model.safetensors"] == b"weights"
    card = asked["README.md"].decode()
    assert card.startswith("---\nlibrary_name: transformers\n---") and "80.0 % (75.0 to 85.0)" in card
    assert 'from_pretrained("you/one")' in card and "merge@one" in card and "mmmmmmmm1" in card and "therun" in card


def test_nothing_is_uploaded_unless_asked(root: Path, asked: dict[str, Any]) -> None:
    done = castaway("push", "one", "you/one", "--root", str(root))
    assert done.exit_code == 0 and done.stdout.endswith("nothing was uploaded; --yes does it\n")
    assert "model.safetensors" in done.stdout and "therun" in done.stdout and asked == {}


def test_what_cannot_be_uploaded_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError("403: you may not write here")

    with pytest.raises(CastawayError, match=r"two/merge holds no model; `dvc repro merge@two`"):
        upload_of(root, "two", "you/two")
    with pytest.raises(CastawayError, match="a b was not uploaded"):
        publish(*upload_of(root, "one", "a b"), "a b", private=True, message="x")
    monkeypatch.setattr(HfApi, "create_repo", refuse)
    sentence = told(castaway("push", "one", "you/one", "--yes", "--root", str(root)))
    assert "you/one was not uploaded to" in sentence and "403" in sentence and "HF_TOKEN" in sentence
