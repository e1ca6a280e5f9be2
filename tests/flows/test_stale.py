"""What makes a stage of the shipped pipeline stale, asked of DVC itself in a clone whose outs are made up."""

from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest
from dvc.repo import Repo

from tests.castaway.figures import save
from tests.miniature import edited, every, make_clone, run


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pipeline as it is after a build, with other bytes in its outs."""
    root = tmp_path_factory.mktemp("clone")
    make_clone(root)
    make_up(root)
    return root


def make_up(root: Path, *addresses: str) -> None:
    """Write something in place of what these stages build, or all of them, and commit it to DVC."""
    for stage in Repo(str(root)).index.stages:
        for out in stage.outs if not addresses or stage.name in addresses else ():
            place = root / out.def_path
            save(place if place.suffix else place / "out.txt", "[]\n" if place.suffix else out.def_path)
    run(root, "dvc", "commit", "--force", *addresses)


def stale(root: Path, *targets: str) -> dict[str, object]:
    """The stages that DVC would build again, with the reasons."""
    with chdir(root):  # DVC reads params.yaml from here
        return dict(Repo().status(targets or None))


def of_room(root: Path, room: str) -> list[Path]:
    """The files of a folder of the library, from the root."""
    files = [path.relative_to(root) for path in sorted((root / "castaway" / room).rglob("*")) if path.is_file()]
    return [path for path in files if path.suffix != ".pyc"]


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


def test_what_people_look_at_and_what_only_names_parameters_makes_no_stage_stale(clone: Path) -> None:
    shown = [path for room in ("tools", "integrations", "metrics", "config") for path in of_room(clone, room)]
    assert len(shown) > 30
    with lines_added(clone, [*shown, Path("stages/context.py")]):
        assert stale(clone) == {}


def test_a_stage_is_stale_by_the_code_that_it_depends_on(clone: Path) -> None:
    # PPO is no part of what plays an evaluation, nor of what makes a base model.
    with lines_added(clone, [Path("castaway/rl/ppo.py"), Path("castaway/models/reward.py")]):
        assert set(stale(clone)) == set(every("sft", "reward_model", "ppo", "correction_sft", "evaluate", "merge"))
    with lines_added(clone, [Path("castaway/rl/ppo.py")]):
        assert set(stale(clone)) == set(every("ppo"))


def test_the_code_of_a_task_makes_the_stages_of_its_runs_stale(clone: Path) -> None:
    with lines_added(clone, [Path("castaway/envs/strictbot/answers.py")]):
        changed = set(stale(clone))
    made_by_the_task = {f"{stage}@strictbot" for stage in ("dataset", "reward_model", "ppo", "evaluate")}
    assert changed == {"base@answers", *made_by_the_task}


def test_a_base_model_is_copied_again_when_a_byte_of_its_folder_changes(tmp_path: Path) -> None:
    make_clone(tmp_path)
    with edited(tmp_path / "params.yaml") as params:
        of_all = {key: params["bases"]["answers"][key] for key in ("dtype", "gradient_checkpointing", "instructions")}
        params["bases"]["local"] = {"code": "models/local", "path": "models/local", **of_all}
        params["tasks"]["strictbot"]["base"] = "local"
    weights = tmp_path / "models/local/weights/model.safetensors"
    save(weights, "one")
    make_up(tmp_path, "base@local")
    assert stale(tmp_path, "base@local") == {}
    save(weights, "two")
    assert set(stale(tmp_path, "base@local")) == {"base@local"}
    with chdir(tmp_path):  # DVC reads params.yaml from here
        merge = Repo().stage.load_one(name="merge@strictbot")
    read = {name for dep in merge.deps for name in getattr(dep, "params", ())}
    assert "bases.local" in read and "bases.answers" not in read, "its card names the model"


def test_what_one_run_sets_differently_makes_its_own_stages_stale(clone: Path) -> None:
    before = (clone / "params.yaml").read_bytes()
    with edited(clone / "params.yaml") as params:
        params["tasks"]["marooned"]["dataset"] = {"random_action_rate": 0.3}
        params["tasks"]["openspiel"]["sft"] = {"lora": {"rank": 8, "alpha": 16}}
    changed = stale(clone)
    assert set(changed) == {"dataset@marooned", "evaluate@marooned", "sft@openspiel"}
    assert "tasks.openspiel.sft" in str(changed["sft@openspiel"]), "it says which key it was"
    (clone / "params.yaml").write_bytes(before)
