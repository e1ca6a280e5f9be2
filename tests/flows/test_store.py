"""An MLflow that is locked, deleted, moved or tidied up while a stage runs: everything is there in the end."""

import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from castaway.tasks.registry import read_params
from castaway.tracking import stage_run
from castaway.tracking.dvc_stage import DvcStage
from castaway.tracking.records import write_json
from castaway.tracking.store import EXPERIMENT
from flows.pipeline_run import DRIVER, PipelineRun
from flows.steps import Outcome, Step
from tests.flows.conftest import PARAMS, REVISION
from tests.flows.running import runs_of


@pytest.fixture
def run(made: Callable[[str], DvcStage], monkeypatch: pytest.MonkeyPatch) -> stage_run.StageRun:
    """A run of which every point is written at once."""
    monkeypatch.setattr(stage_run, "INTERVAL", 0.0)
    return stage_run.StageRun(made("base"), PARAMS, {}, REVISION)


def log(run: stage_run.StageRun, first: int, last: int) -> None:
    for step in range(first, last):
        run._next = 0.0
        run.log(step, {"loss": float(step)})


def end_whole(store: str, run: stage_run.StageRun, points: int) -> None:
    """End the run: everything is in the store."""
    run.succeed({"score": 1}, {"data/base": "a" * 32})
    client = MlflowClient(f"{store}?timeout=20")  # an address of its own: MLflow keeps what it knows of one
    found = client.get_run(str(run.run_id))
    assert (found.info.status, found.info.lifecycle_stage) == ("FINISHED", "active")
    assert [one.step for one in client.get_metric_history(str(run.run_id), "loss")] == list(range(points))
    assert found.data.metrics["score"] == 1.0
    assert found.data.params["seed"] == "1"
    assert found.data.tags["dvc.stage"] == "base"
    assert found.data.tags["dvc.out.data/base"] == "a" * 32
    assert client.get_experiment(found.info.experiment_id).lifecycle_stage == "active"


def test_curves_are_there_after_every_update(run: stage_run.StageRun, store: str) -> None:
    for step in range(3):
        log(run, step, step + 1)
        assert len(MlflowClient(store).get_metric_history(str(run.run_id), "loss")) == step + 1


@pytest.mark.slow
def test_a_store_that_is_locked_for_ten_seconds(
    run: stage_run.StageRun, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log(run, 0, 2)
    locked = threading.Event()

    def lock() -> None:
        with sqlite3.connect(store.removeprefix("sqlite:///"), timeout=60) as database:
            database.execute("BEGIN EXCLUSIVE")
            locked.set()
            threading.Event().wait(10)
            database.rollback()

    other = threading.Thread(target=lock)
    other.start()
    locked.wait()
    log(run, 2, 4)
    end_whole(store, run, 4)
    other.join()
    assert capsys.readouterr().err == ""


def test_one_locked_database_ends_nothing(
    run: stage_run.StageRun, store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQLite says so at once, without waiting, where two that read both want to write."""
    from mlflow.exceptions import MlflowException

    real, left = run._mlflow.log_batch, [1]

    def log_batch(*arguments: object, **values: object) -> None:
        if left:
            left.pop()
            raise MlflowException("database is locked")
        real(*arguments, **values)

    monkeypatch.setattr(run._mlflow, "log_batch", log_batch)
    log(run, 0, 2)
    end_whole(store, run, 2)
    assert capsys.readouterr().err == ""


def test_a_store_that_is_deleted_is_filled_again(run: stage_run.StageRun, store: str) -> None:
    log(run, 0, 2)
    first = run.run_id
    Path(store.removeprefix("sqlite:///")).unlink()
    log(run, 2, 4)
    end_whole(store, run, 4)
    assert run.run_id != first


def test_an_experiment_that_is_deleted_is_restored(run: stage_run.StageRun, store: str) -> None:
    log(run, 0, 2)
    client = MlflowClient(store)
    client.delete_experiment(client.get_run(str(run.run_id)).info.experiment_id)
    log(run, 2, 4)
    client.delete_run(str(run.run_id))
    end_whole(store, run, 4)


def test_a_repository_that_was_moved_has_its_artifacts_with_it(
    made: Callable[[str], DvcStage], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made("base").root
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    shutil.copy(store.removeprefix("sqlite:///"), tmp_path / "before")

    def logged_in(folder: Path) -> tuple[MlflowClient, str]:
        monkeypatch.setenv("DVC_ROOT", str(folder))  # the repository that the stage reports to
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        run = stage_run.StageRun(made("base"), PARAMS, {}, REVISION)
        assert run.run_id
        run._mlflow.log_text(run.run_id, "of " + folder.name, "note.txt")
        run.succeed({}, {})
        return run._mlflow, run.run_id

    _, early = logged_in(tmp_path / "before")
    for path in (tmp_path / "before").iterdir():
        path.rename(tmp_path / "after" / path.name)
    client, late = logged_in(tmp_path / "after")
    for run_id, text in ((early, "of before"), (late, "of after")):
        assert client.get_run(run_id).info.artifact_uri.startswith((tmp_path / "after/mlruns" / EXPERIMENT).as_uri())
        place = client.get_run(run_id).info.artifact_uri.removeprefix("file://")
        assert Path(place, "note.txt").read_text() == text
    assert not list((tmp_path / "before").iterdir())
    assert root.exists()


def test_a_finished_stage_that_mlflow_did_not_hear_of_is_not_called_killed(
    made: Callable[[str], DvcStage], run: stage_run.StageRun, store: str
) -> None:
    stage, client = made("base"), MlflowClient(store)
    unheard = stage_run.StageRun(stage, PARAMS, {}, REVISION)
    for one in (run, unheard):
        host, number, start = client.get_run(str(one.run_id)).data.tags["process"].split(":")
        client.set_tag(str(one.run_id), "process", f"{host}:{number}:{int(start) - 1}")
    write_json(stage.root / "data/runs/base.json", {"run_id": unheard.run_id})
    stage_run.StageRun(stage, PARAMS, {}, REVISION).succeed({}, {})
    states = [client.get_run(str(one.run_id)).info.status for one in (run, unheard)]
    assert states == ["KILLED", "FINISHED"]


def test_the_pipelines_run_is_begun_again_in_a_new_store(made: Callable[[str], DvcStage], store: str) -> None:
    root = made("base").root
    step = Step("base", (), "cpu", 1.0, ("data/base",))
    with PipelineRun(root, [], read_params(root / "params.yaml"), [step]) as parent:
        Path(store.removeprefix("sqlite:///")).unlink()
        parent.finish([Outcome(step, "Ran")])
    client = MlflowClient(f"{store}?timeout=20")
    (found,) = runs_of(client, DRIVER)
    assert found.info.status == "FINISHED"
    assert [one.path for one in client.list_artifacts(found.info.run_id)] == ["stages.json"]
