"""The stage key against DVC's own run-cache, and what an MLflow that was filled again holds, in real repositories."""

import subprocess
from collections.abc import Callable

import pytest
from mlflow import MlflowClient

from castaway.config.errors import CastawayError
from castaway.metrics.built import locked_stages
from castaway.tools.lineage import Ancestor, ancestry
from castaway.tracking import dvc_stage
from castaway.tracking.store import EXPERIMENT
from tests.flows.conftest import Repository, of_marooned
from tests.miniature import set_params

PIPELINE = """\
stages:
  base:
    cmd: mkdir -p data/base/deep data/runs && cp seed.txt data/base/deep/weights && echo '{}' > data/runs/base.json
    deps: [seed.txt]
    params: [seed, base]
    outs: [data/base, data/runs/base.json]
  sft:
    foreach: ${tasks}
    do:
      cmd: mkdir -p data/${key} && cat data/base/deep/weights > data/${key}/sft
      deps: [data/base, code]
      params: [sft.learning_rate, threads]
      outs: ["data/${key}/sft"]
"""

TRAINED = of_marooned({"dataset": ((), "threads"), "sft": (("dataset",), "seed"), "merge": (("sft",), "threads")})
TRAINS = """
def run(context):
    value = getattr(context.params, "seed", 0)
    (context.output / "model.safetensors").write_text(f"{context.stage} {value}")
    for step in range(3):
        context.log(step, {"loss": value / (step + 1)})
    return {"score": value, "note": "text"}
"""


@pytest.fixture
def built(repository: Callable[[str], Repository]) -> Repository:
    made = repository(PIPELINE)
    made.write("seed.txt", "1")
    made.write("code/a.py", "a = 1")
    made.write("code/b.py", "b = 1")
    done = made.run("dvc", "repro")
    assert done.returncode == 0, done.stderr
    return made


def test_the_stage_key_is_the_name_of_dvcs_cache_entry_and_follows_inputs_alone(built: Repository) -> None:
    for address in ("base", "sft@marooned"):
        of_stage = dvc_stage.load(built.root, address).inputs.stage_key
        assert (built.root / ".dvc/cache/runs" / of_stage[:2] / of_stage).is_dir()
        assert locked_stages(built.root)[address].key == of_stage
    inputs = dvc_stage.load(built.root, "sft@marooned").inputs
    outs = locked_stages(built.root)["base"].outs
    assert inputs.data == outs == dvc_stage.load(built.root, "base").output_hashes()
    assert set(inputs.dependencies) == {"data/base", "code"}

    def key() -> str:
        return dvc_stage.load(built.root, "sft@marooned").inputs.stage_key

    first = key()
    built.write("code/__pycache__/a.pyc", "byte code")
    built.change("params.yaml", "threads: 1", "threads: 1  # a comment")
    assert key() == first
    built.write("code/b.py", "b = 2")
    second = key()
    assert second != first
    built.change("params.yaml", "threads: 1", "threads: 2")
    assert key() not in (first, second)
    (built.root / "seed.txt").unlink()
    with pytest.raises(CastawayError, match=r"base needs seed\.txt, which does not exist; run `dvc repro base`"):
        _ = dvc_stage.load(built.root, "base").inputs
    done = built.run("flows", "lineage", "check", MLFLOW_TRACKING_URI="sqlite:////proc/nowhere/mlflow.db")
    assert done.returncode == 2
    assert "error: MLflow's store sqlite:////proc/nowhere/mlflow.db cannot be used (" in done.stderr
    assert "Traceback" not in done.stderr


# What made what, through everything that happens to a repository ----------------------------------------------------


@pytest.fixture
def trained(repository: Callable[[str], Repository]) -> Repository:
    """A repository with three stages that train, and a remote; nothing is built."""
    made = repository(TRAINED)
    for name in ("dataset", "sft", "merge"):
        made.write(f"stages/{name}.py", TRAINS)
    remote = made.root.parent / "remote"
    assert made.run("dvc", "remote", "add", "--default", "shared", str(remote)).returncode == 0
    made.commit()
    return made


def build(place: Repository, *arguments: str) -> None:
    done = place.run("dvc", "repro", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def known(place: Repository, address: str = "merge@marooned") -> dict[str, Ancestor]:
    """The ancestors of a stage's output, by stage."""
    return {one.stage: one for one in ancestry(place.root, locked_stages(place.root), address)}


def head(place: Repository) -> str:
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=place.root, capture_output=True, text=True, check=True).stdout.strip()


def store(place: Repository) -> MlflowClient:
    return MlflowClient(f"sqlite:///{place.root}/mlflow.db")


def assert_true(place: Repository, stores: list[MlflowClient]) -> None:
    """What lineage says of every artifact is what the named run itself has written down."""
    for address in locked_stages(place.root):
        for one in known(place, address).values():
            if not one.run:
                continue
            (run,) = [found for each in stores for found in each.search_runs(["1"], f"run_id = '{one.run}'")]
            assert run.data.tags["dvc.rev"] == one.commit
            tags = {key.removeprefix("dvc.out."): value for key, value in run.data.tags.items()}
            assert tags[one.artifact] == one.outputs[one.artifact], f"{run.info.run_id} did not make {one.artifact}"
            if one.exact:
                assert run.data.tags["dvc.stage_key"] == locked_stages(place.root)[one.stage].key


@pytest.mark.slow
def test_the_true_run_is_named_through_training_restoring_editing_and_cloning(trained: Repository) -> None:
    def train(seed: int) -> dict[str, Ancestor]:
        set_params(trained.root, {"seed": seed})
        build(trained)
        trained.commit()
        assert_true(trained, [store(trained)])
        return known(trained)

    began = [head(trained)]
    first = train(2)
    began.append(head(trained))
    second = train(3)
    third = train(2)
    runs = {name: [found[f"{name}@marooned"].run for found in (first, second, third)] for name in ("dataset", "sft")}
    # The data set does not depend on the seed; the rest was trained twice, and then restored.
    assert len(set(runs["dataset"])) == 1
    assert runs["sft"][0] == runs["sft"][2] != runs["sft"][1]
    # The change of params.yaml was not yet committed when the stages ran.
    assert [found["sft@marooned"].commit for found in (first, second)] == [f"{one}+dirty" for one in began]
    assert third["sft@marooned"].params == {}
    assert third["sft@marooned"].metrics == {"score": 2}

    assert trained.run("dvc", "push", "--run-cache").returncode == 0
    clone = Repository(trained.root.parent / "clone")
    subprocess.run(["git", "clone", "--quiet", str(trained.root), str(clone.root)], check=True)
    assert clone.run("dvc", "pull").returncode == 0
    assert known(clone) == third
    told = clone.run("flows", "lineage", "sync")
    assert (told.returncode, told.stdout) == (0, "tagged 0 runs, made 3\n"), told.stderr
    assert known(clone) == third
    assert clone.run("flows", "lineage", "sync").stdout == "tagged 3 runs, made 0\n"
    assert_filled(store(clone), third)

    # Code that was edited and committed to DVC by hand, a stage that was built again alone, and all put back.
    clone.write("stages/sft.py", f"{TRAINS}\n# edited")
    assert clone.run("dvc", "commit", "--force").returncode == 0
    assert_true(clone, [store(trained), store(clone)])
    clone.write("stages/sft.py", TRAINS.replace("value}", "value} again"))
    build(clone, "--single-item", "--force", "sft@marooned")
    assert_true(clone, [store(trained), store(clone)])
    assert known(clone)["merge@marooned"].makers.get("data/marooned/sft") is None
    subprocess.run(["git", "stash", "--quiet"], cwd=clone.root, check=True)
    clone.run("dvc", "checkout")
    assert_true(clone, [store(trained), store(clone)])


def assert_filled(mlflow: MlflowClient, ancestors: dict[str, Ancestor]) -> None:
    """MLflow has one finished run of each stage, with what its own run had."""
    experiment = mlflow.get_experiment_by_name(EXPERIMENT)
    runs = {run.info.run_name: run for run in mlflow.search_runs([experiment.experiment_id])}
    assert set(runs) == set(ancestors)
    run, one = mlflow.get_run(runs["sft@marooned"].info.run_id), ancestors["sft@marooned"]
    assert run.info.status == "FINISHED"
    assert run.info.end_time >= run.info.start_time
    assert run.data.tags["castaway.recorded_run"] == one.run
    assert run.data.tags["dvc.rev"] == one.commit
    assert run.data.tags["dvc.out.data/marooned/sft"] == one.outputs["data/marooned/sft"]
    assert run.data.params == {"seed": "2"}
    assert run.data.metrics["score"] == 2
    assert [(each.step, each.value) for each in mlflow.get_metric_history(run.info.run_id, "loss")] == [
        (0, 2.0),
        (1, 1.0),
        (2, pytest.approx(2 / 3)),
    ]
    (data,) = run.inputs.dataset_inputs
    assert (data.dataset.name, data.dataset.digest) == ("data/marooned/dataset", one.inputs["data/marooned/dataset"])
    (read,), (wrote,) = run.inputs.model_inputs, run.outputs.model_outputs
    assert mlflow.get_logged_model(read.model_id).name == "dataset-marooned"
    assert mlflow.get_logged_model(wrote.model_id).tags["dvc.out.data/marooned/sft"] == one.outputs["data/marooned/sft"]
