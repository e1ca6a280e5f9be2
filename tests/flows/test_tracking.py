"""What a stage leaves in a real MLflow store, and what happens where there is none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from castaway.metrics.built import Locked
from castaway.tracking import dvc_stage, lineage, stage_run
from castaway.tracking.records import write_json
from castaway.tracking.store import EXPERIMENT
from tests.castaway.figures import EVALUATE, policy, save
from tests.castaway.tools.marooned.episodes import played
from tests.flows.conftest import PARAMS, REVISION


def of_task(name: str) -> dict[str, Any]:
    """Parameters of a run that is called as its task is."""
    return {"tasks": {name: {"task": name}}}


def runs(store: str, stage: dvc_stage.DvcStage) -> list[Any]:
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name(EXPERIMENT).experiment_id
    return list(client.search_runs([experiment], f"tags.`dvc.stage_key` = '{stage.inputs.stage_key}'"))


def test_a_run_holds_all_that_is_to_be_known(made: Callable[[str], dvc_stage.DvcStage], store: str) -> None:
    stage = made("base")
    run = stage_run.StageRun(stage, PARAMS, {"device.kind": "cpu"}, REVISION)
    for step in range(stage_run.BUFFER + 7):
        run.log(step, {"loss": 1 / (step + 1)})
    for moves in ("easy", "easy, medium in step 3"):
        run.tag("curriculum", moves)
    run.succeed({"score": {"mean": 0.5}, "sunk": True, "name": "Friday"}, {"data/base": "a" * 32 + ".dir"})

    client = MlflowClient(store)
    found = client.get_run(str(run.run_id))
    assert found.info.status == "FINISHED"
    assert client.get_experiment(found.info.experiment_id).name == EXPERIMENT
    assert found.data.params == {"seed": "1", "base.layers": "3", "base.lora.rank": "8"}
    assert found.data.metrics == {"loss": 1 / (stage_run.BUFFER + 7), "score.mean": 0.5}
    assert len(client.get_metric_history(str(run.run_id), "loss")) == stage_run.BUFFER + 7
    tags = found.data.tags
    assert tags["dvc.stage"] == "base"
    assert tags["dvc.stage_key"] == stage.inputs.stage_key
    assert tags["dvc.rev"] == tags["mlflow.source.git.commit"] == REVISION
    assert tags["dvc.out.data/base"] == "a" * 32 + ".dir"
    assert tags["device.kind"] == "cpu" and tags["curriculum"] == "easy, medium in step 3"
    assert [one.info.run_id for one in runs(store, stage)] == [run.run_id]


def test_a_call_is_a_trace_of_its_run(made: Callable[[str], dvc_stage.DvcStage], store: str) -> None:
    run = stage_run.StageRun(made("base"), PARAMS, {}, REVISION)
    run.trace("verdict", {"messages": [{"role": "user", "content": "?"}]}, {"answer": "!"}, 1_000.0, 1_002.5)
    run.succeed({}, {})
    assert run.model_id is None  # without weights
    client = MlflowClient(store)
    experiment = client.get_run(str(run.run_id)).info.experiment_id
    (trace,) = client.search_traces(locations=[experiment], run_id=run.run_id)
    (span,) = trace.data.spans
    assert (span.name, span.inputs["messages"][0]["content"], span.outputs) == ("verdict", "?", {"answer": "!"})
    assert trace.info.execution_duration == 2500


def test_runs_are_linked_by_data_and_by_models(made: Callable[[str], dvc_stage.DvcStage], store: str) -> None:
    base = made("base")
    for out in ("data/base", "data/marooned/sft"):  # an out with weights is a model
        save(base.root / out / "adapter_model.safetensors", "")
    parent = stage_run.StageRun(made("base"), PARAMS, {}, REVISION)
    parent.succeed({}, {})
    write_json(base.root / "data/runs/base.json", {"model_id": parent.model_id})

    child = stage_run.StageRun(made("sft@marooned"), PARAMS, {}, REVISION)
    child.succeed({}, {})

    client = MlflowClient(store)
    found = client.get_run(str(child.run_id))
    (data,) = found.inputs.dataset_inputs
    assert (data.dataset.name, data.dataset.digest) == ("data/base", made("sft@marooned").inputs.data["data/base"])
    assert [one.model_id for one in found.inputs.model_inputs] == [parent.model_id]
    assert [one.model_id for one in found.outputs.model_outputs] == [child.model_id]
    model = client.get_logged_model(str(child.model_id))
    assert (model.name, model.model_type, model.source_run_id) == ("sft-marooned", "sft", child.run_id)

    # An ancestor from another machine is left out.
    write_json(base.root / "data/runs/base.json", {"model_id": "m-00000000000000000000000000000000"})
    run = stage_run.StageRun(made("sft@marooned"), PARAMS, {}, REVISION)
    run.succeed({}, {})
    found = client.get_run(str(run.run_id))
    assert found.info.status == "FINISHED" and not found.inputs.model_inputs


def evaluated(stage: dvc_stage.DvcStage) -> None:
    """Write the figures of an evaluation, from which the report is made."""
    save(stage.root / "data" / stage.run / "figures" / "evaluate.json", EVALUATE)


def test_an_evaluation_can_be_watched(
    made: Callable[[str], dvc_stage.DvcStage], store: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stage = made("evaluate@marooned")
    evaluated(stage)
    folder = stage.root / "data/marooned/evaluate"
    for name in ("base/1", "final/9", "final/10"):
        save(folder / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in played(3, "crew", {})))
    save(folder / "final/8.jsonl", '{"task_id": 8}\n')  # of another game
    run = stage_run.StageRun(stage, of_task("marooned"), {}, REVISION)
    run.succeed({}, {})
    told = capsys.readouterr().err
    assert told.startswith("warning: MLflow could not show final/8.jsonl, going on without it: ")
    assert told.count("\n") == 1
    client = MlflowClient(store)
    pages = [one.path for one in client.list_artifacts(str(run.run_id), "replays")]
    assert pages == ["replays/final-10.html", "replays/final-9.html"]
    report = client.download_artifacts(str(run.run_id), "report.html", str(tmp_path))
    assert "final, episode 3" in Path(report).read_text("utf-8")
    page = client.download_artifacts(str(run.run_id), pages[0], str(tmp_path))
    assert "MAROONED, skiff, episode 3" in Path(page).read_text("utf-8")


def test_an_evaluation_has_the_charts_of_its_tasks_view(
    made: Callable[[str], dvc_stage.DvcStage], store: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    seats = ("", "mcts-10_", "mcts-50_")
    figures = {f"{seat}success_rate{end}": 0.5 for seat in seats for end in ("", "_low", "_high")}
    stage = made("evaluate@openspiel")
    evaluated(stage)
    run = stage_run.StageRun(stage, of_task("openspiel"), {}, REVISION)
    run.succeed({"games": {"nim": {"final": figures}}}, {})
    assert capsys.readouterr().err == ""
    client = MlflowClient(store)
    charts = [one.path for one in client.list_artifacts(str(run.run_id), "charts")]
    assert charts == [f"charts/games_{seat}.svg" for seat in ("mcts-10", "mcts-50", "random")]
    assert "nim" in Path(client.download_artifacts(str(run.run_id), charts[0], str(tmp_path))).read_text("utf-8")

    # A view that cannot draw costs its charts and nothing else.
    run = stage_run.StageRun(made("evaluate@openspiel"), of_task("openspiel"), {}, REVISION)
    run.succeed({"score": 1}, {"data/openspiel/evaluate": "c" * 32})
    assert "warning: MLflow could not draw charts, going on without it: " in capsys.readouterr().err
    found = client.get_run(str(run.run_id))
    assert (found.info.status, found.data.metrics) == ("FINISHED", {"score": 1.0})
    assert found.data.tags["dvc.out.data/openspiel/evaluate"] == "c" * 32


def test_metrics_have_names_that_mlflow_takes(
    made: Callable[[str], dvc_stage.DvcStage], store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stage_run.StageRun(made("base"), PARAMS, {}, REVISION)
    run.log(0, {"accuracy (top 5)": 0.25, "../up": 1.0})
    run.succeed({"level, against a curt one": 0.5, "größe": 1, "usual_name-1.a b/c:d": 2, "/top": 3}, {})
    assert capsys.readouterr().err == ""
    found = MlflowClient(store).get_run(str(run.run_id))
    assert found.info.status == "FINISHED"
    assert found.data.metrics == {
        "accuracy _top 5_": 0.25,
        "level_ against a curt one": 0.5,
        "gr__e": 1.0,
        "usual_name-1.a b/c:d": 2.0,
        "___up": 1.0,
        "_top": 3.0,
    }


def test_thousands_of_figures_are_a_file_and_thirty_are_metrics(
    made: Callable[[str], dvc_stage.DvcStage], store: str, tmp_path: Path
) -> None:
    players = ("base", "demonstrators", "expert", "final", "ppo", "random", "sft")
    figures = dict.fromkeys(players, policy(0.5))
    games = {f"game {number}": figures for number in range(50)}
    run = stage_run.StageRun(made("evaluate@openspiel"), of_task("openspiel"), {}, REVISION)
    run.succeed({**figures, "games": games}, {})
    client = MlflowClient(store)
    metrics = client.get_run(str(run.run_id)).data.metrics
    assert len(metrics) == 30
    expected = [f"{name}.success_rate" for name in ("sft", "ppo", "final", "expert")]
    assert metrics.keys() >= {*expected, "final.success_rate_low", "final.success_rate_high", "final.invalid_rate"}
    place = client.download_artifacts(str(run.run_id), "figures.json", str(tmp_path))
    assert json.loads(Path(place).read_text("utf-8"))["games"] == games


def test_without_mlflow_the_stage_goes_on(
    made: Callable[[str], dvc_stage.DvcStage],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/no/such/folder/mlflow.db")
    (tmp_path / "no").write_text("a file where a folder is needed", encoding="utf-8")
    run = stage_run.StageRun(made("base"), PARAMS, {}, REVISION)
    run.log(1, {"loss": 1.0})
    run.succeed({"score": 1}, {})
    assert (run.run_id, run.model_id) == (None, None)
    told = capsys.readouterr().err
    assert told.startswith("warning: MLflow could not open a run, going on without it:")
    assert told.count("warning:") == 1


def test_sync_tags_runs_with_what_they_made(
    made: Callable[[str], dvc_stage.DvcStage], store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = made("base")
    run = stage_run.StageRun(stage, PARAMS, {}, REVISION)
    run.succeed({}, {})
    record = {"run_id": run.run_id, "stage_key": "key"}
    entry = {"cmd": "x", "outs": [{"path": "data/base", "md5": "b" * 32}]}
    known = Locked("base", entry, record)
    known.record["stage_key"] = known.key
    unknown = Locked("sft@marooned", {**entry, "cmd": "y"}, {})
    assert lineage.sync(stage.root, {"base": known, "sft@marooned": unknown}) == 0
    assert MlflowClient(store).get_run(str(run.run_id)).data.tags["dvc.out.data/base"] == "b" * 32
    assert capsys.readouterr().out == "tagged 1 run, made 0; no record for sft@marooned\n"
