"""What makes a stage of the shipped pipeline stale, asked of DVC itself in a clone whose outs are made up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest
from dvc.repo import Repo

from tests.miniature import edited, every, looked_at, make_clone, run


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pipeline as it is after a build, with other bytes in its outs."""
    root = tmp_path_factory.mktemp("clone")
    make_clone(root)
    for stage in Repo(str(root)).index.stages:
        for out in stage.outs:
            place = root / out.def_path
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.suffix:
                place.write_text("[]\n", encoding="utf-8")
            else:
                place.mkdir()
                (place / "out.txt").write_text(out.def_path, encoding="utf-8")
    run(root, "dvc", "commit", "--force")
    return root


def stale(root: Path) -> set[str]:
    """The stages that DVC would look at again."""
    return set(json.loads(run(root, "dvc", "status", "--json").splitlines()[-1]))


@contextmanager
def lines_added(root: Path, paths: Sequence[Path]) -> Iterator[None]:
    """While this lasts, each of the files has a line more."""
    before = {path: (root / path).read_bytes() for path in paths}
    try:
        for path, content in before.items():
            (root / path).write_bytes(content + b"\n# another line\n")
        yield
    finally:
        for path, content in before.items():
            (root / path).write_bytes(content)


def test_what_people_look_at_makes_no_stage_stale(clone: Path) -> None:
    changed = sorted(looked_at(clone))
    assert len(changed) > 20
    with lines_added(clone, changed):
        assert stale(clone) == set()
    # Where a stage does depend on a file, it is stale.
    with lines_added(clone, [Path("castaway/metrics/ranking.py")]):
        assert stale(clone) == set(every("reward_model"))


def test_the_code_of_a_task_makes_the_stages_of_its_runs_stale(clone: Path) -> None:
    with lines_added(clone, [Path("castaway/envs/strictbot/answers.py")]):
        found = stale(clone)
    made_by_the_task = {f"{stage}@strictbot" for stage in ("dataset", "reward_model", "ppo", "evaluate")}
    # The base model of the games depends on the folder of all games; what it makes of it has the same bytes.
    assert found == {"base@answers", "base@games", *made_by_the_task}


def test_a_base_model_is_copied_again_when_a_byte_of_its_folder_changes(tmp_path: Path) -> None:
    make_clone(tmp_path)
    with edited(tmp_path / "params.yaml") as params:
        params["bases"]["local"] = {"path": "models/local"}
        params["tasks"]["strictbot"]["base"] = "local"
    weights = tmp_path / "models/local/weights/model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"one")
    run(tmp_path, "python", "-m", "flows", "closure", "--write")
    for name in ("base", "plots/base.jsonl", "plots/base.json", "metrics/base.json", "runs/base.json"):
        place = tmp_path / "data/local" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir() if place.name == "base" else place.write_text("[]\n", encoding="utf-8")
    run(tmp_path, "dvc", "commit", "--force", "base@local")

    def of_the_model() -> set[str]:
        return set(json.loads(run(tmp_path, "dvc", "status", "--json", "base@local").splitlines()[-1]))

    assert of_the_model() == set()
    weights.write_bytes(b"two")
    assert of_the_model() == {"base@local"}
    with chdir(tmp_path):  # DVC reads params.yaml from here
        merge = Repo().stage.load_one(name="merge@strictbot")
    read = {name for dep in merge.deps for name in getattr(dep, "params", ())}
    assert "bases.local" in read and "bases.answers" not in read, "its card names the model"


def test_what_one_run_sets_differently_makes_its_own_stages_stale(clone: Path) -> None:
    before = (clone / "params.yaml").read_bytes()
    with edited(clone / "params.yaml") as params:
        params["tasks"]["marooned"]["dataset"] = {"carelessness": 0.3}
        params["tasks"]["openspiel"]["sft"] = {"lora": {"rank": 8, "alpha": 16}}
    assert stale(clone) == {"dataset@marooned", "evaluate@marooned", "sft@openspiel"}
    (clone / "params.yaml").write_bytes(before)
    assert stale(clone) == set()
