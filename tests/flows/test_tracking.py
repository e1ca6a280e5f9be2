"""What a stage leaves in a real MLflow store, and what happens where there is none."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from castaway.tools.lineage.locked import Locked
from flows import declared, lineage, tracking
from flows.records import Curves, read_json, record_of, write_json
from flows.stage import execute
from flows.store import EXPERIMENT
from tests.castaway.tools.marooned.replay.episodes import played
from tests.flows.conftest import PARAMS, REVISION


def of_task(name: str) -> dict[str, Any]:
    """Parameters of a run that is called as its task is."""
    return {"tasks": {name: {"task": name}}}


def runs(store: str, stage: declared.Declared) -> list[Any]:
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name(EXPERIMENT).experiment_id
    return list(client.search_runs([experiment], f"tags.`dvc.stage_key` = '{stage.inputs.stage_key}'"))


def test_a_run_holds_all_that_is_to_be_known(made: Callable[[str], declared.Declared], store: str) -> None:
    stage = made("base")
    run = tracking.StageRun(stage, PARAMS, {"device.kind": "cpu"}, REVISION)
    for step in range(tracking.BUFFER + 7):
        run.log(step, {"loss": 1 / (step + 1)})
    run.succeed({"score": {"mean": 0.5}, "sunk": True, "name": "Friday"}, {"data/base": "a" * 32 + ".dir"})

    client = MlflowClient(store)
    found = client.get_run(str(run.run_id))
    assert found.info.status == "FINISHED"
    assert client.get_experiment(found.info.experiment_id).name == EXPERIMENT
    assert found.data.params == {"seed": "1", "base.layers": "3", "base.lora.rank": "8"}
    assert found.data.metrics == {"loss": 1 / (tracking.BUFFER + 7), "score.mean": 0.5}
    assert len(client.get_metric_history(str(run.run_id), "loss")) == tracking.BUFFER + 7
    tags = found.data.tags
    assert tags["dvc.stage"] == "base"
    assert tags["dvc.stage_key"] == stage.inputs.stage_key
    assert tags["dvc.rev"] == tags["mlflow.source.git.commit"] == REVISION
    assert tags["dvc.out.data/base"] == "a" * 32 + ".dir"
    assert tags["device.kind"] == "cpu"
    assert [one.info.run_id for one in runs(store, stage)] == [run.run_id]


def test_a_call_is_a_trace_of_its_run(made: Callable[[str], declared.Declared], store: str) -> None:
    run = tracking.StageRun(made("base"), PARAMS, {}, REVISION)
    run.trace("verdict", {"messages": [{"role": "user", "content": "?"}]}, {"answer": "!"}, 1_000.0, 1_002.5)
    run.succeed({}, {})
    client = MlflowClient(store)
    experiment = client.get_run(str(run.run_id)).info.experiment_id
    (trace,) = client.search_traces(locations=[experiment], run_id=run.run_id)
    (span,) = trace.data.spans
    assert (span.name, span.inputs["messages"][0]["content"], span.outputs) == ("verdict", "?", {"answer": "!"})
    assert trace.info.execution_duration == 2500


def test_runs_are_linked_by_data_and_by_models(made: Callable[[str], declared.Declared], store: str) -> None:
    base = made("base")
    for out in ("data/base", "data/marooned/sft"):  # an out with weights is a model
        (base.root / out).mkdir(parents=True, exist_ok=True)
        (base.root / out / "adapter_model.safetensors").write_bytes(b"")
    parent = tracking.StageRun(made("base"), PARAMS, {}, REVISION)
    parent.succeed({}, {})
    write_json(base.root / "data/runs/base.json", {"model_id": parent.model_id})

    child = tracking.StageRun(made("sft@marooned"), PARAMS, {}, REVISION)
    child.succeed({}, {})

    client = MlflowClient(store)
    found = client.get_run(str(child.run_id))
    (data,) = found.inputs.dataset_inputs
    assert (data.dataset.name, data.dataset.digest) == ("data/base", made("sft@marooned").inputs.data["data/base"])
    assert [one.model_id for one in found.inputs.model_inputs] == [parent.model_id]
    assert [one.model_id for one in found.outputs.model_outputs] == [child.model_id]
    model = client.get_logged_model(str(child.model_id))
    assert (model.name, model.model_type, model.source_run_id) == ("sft-marooned", "sft", child.run_id)


def test_an_out_without_weights_is_no_model(made: Callable[[str], declared.Declared], store: str) -> None:
    run = tracking.StageRun(made("base"), PARAMS, {}, REVISION)
    run.succeed({}, {})
    assert run.model_id is None
    assert not MlflowClient(store).search_logged_models(
        [MlflowClient(store).get_run(str(run.run_id)).info.experiment_id]
    )


def evaluated(stage: declared.Declared) -> None:
    """Write the metrics of an evaluation, from which the report is made."""
    figures = {f"{name}{end}": 0.5 for name in ("success_rate", "invalid_rate") for end in ("", "_low", "_high")}
    path = stage.root / "data" / stage.run / "metrics" / "evaluate.json"
    write_json(path, {"sft": figures, "final": figures})


def test_an_evaluation_can_be_watched(
    made: Callable[[str], declared.Declared], store: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stage = made("evaluate@marooned")
    evaluated(stage)
    folder = stage.root / "data/marooned/evaluate"
    for name in ("base/1", "final/9", "final/10"):
        path = folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in played(3, "crew", {})), encoding="utf-8")
    (folder / "final/8.jsonl").write_text('{"task_id": 8}\n', encoding="utf-8")  # of another game
    run = tracking.StageRun(stage, of_task("marooned"), {}, REVISION)
    run.succeed({}, {})
    told = capsys.readouterr().err
    assert told.startswith("warning: MLflow could not show final/8.jsonl, going on without it: ")
    assert told.count("\n") == 1
    client = MlflowClient(store)
    pages = [one.path for one in client.list_artifacts(str(run.run_id), "replays")]
    assert pages == ["replays/final-10.html", "replays/final-9.html"]
    report = client.download_artifacts(str(run.run_id), "report.html", str(tmp_path))
    assert "final, episode 3" in Path(report).read_text("utf-8")
    assert client.list_artifacts(str(run.run_id), "charts") == []
    page = client.download_artifacts(str(run.run_id), pages[0], str(tmp_path))
    assert "MAROONED, skiff, episode 3" in Path(page).read_text("utf-8")
    assert client.get_run(str(run.run_id)).info.status == "FINISHED"


def test_an_evaluation_has_the_charts_of_its_tasks_view(
    made: Callable[[str], declared.Declared], store: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    seats = ("", "mcts-10_", "mcts-50_")
    figures = {f"{seat}success_rate{end}": 0.5 for seat in seats for end in ("", "_low", "_high")}
    stage = made("evaluate@openspiel")
    evaluated(stage)
    run = tracking.StageRun(stage, of_task("openspiel"), {}, REVISION)
    run.succeed({"games": {"nim": {"final": figures}}}, {})
    assert capsys.readouterr().err == ""
    client = MlflowClient(store)
    charts = [one.path for one in client.list_artifacts(str(run.run_id), "charts")]
    assert charts == [f"charts/games_{seat}.svg" for seat in ("mcts-10", "mcts-50", "random")]
    assert "nim" in Path(client.download_artifacts(str(run.run_id), charts[0], str(tmp_path))).read_text("utf-8")

    # A view that cannot draw costs its charts and nothing else.
    run = tracking.StageRun(made("evaluate@openspiel"), of_task("openspiel"), {}, REVISION)
    run.succeed({"score": 1}, {"data/openspiel/evaluate": "c" * 32})
    assert "warning: MLflow could not draw charts, going on without it: " in capsys.readouterr().err
    found = client.get_run(str(run.run_id))
    assert (found.info.status, found.data.metrics) == ("FINISHED", {"score": 1.0})
    assert found.data.tags["dvc.out.data/openspiel/evaluate"] == "c" * 32


def test_metrics_have_names_that_mlflow_takes(
    made: Callable[[str], declared.Declared], store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tracking.StageRun(made("base"), PARAMS, {}, REVISION)
    run.log(0, {"accuracy (top 5)": 0.25})
    run.succeed({"level, against a curt one": 0.5, "größe": 1, "usual_name-1.a b/c:d": 2}, {})
    assert capsys.readouterr().err == ""
    found = MlflowClient(store).get_run(str(run.run_id))
    assert found.info.status == "FINISHED"
    assert found.data.metrics == {
        "accuracy _top 5_": 0.25,
        "level_ against a curt one": 0.5,
        "gr__e": 1.0,
        "usual_name-1.a b/c:d": 2.0,
    }


def test_a_refused_name_is_told_and_the_others_are_written(
    made: Callable[[str], declared.Declared], store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tracking.StageRun(made("base"), PARAMS, {}, REVISION)
    for step in range(3):
        run.log(step, {"../up": 1.0, "loss": step})
    run.succeed({"/top": 1.0, "score": {"mean": 0.5}}, {"data/base": "a" * 32})
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(", the others are written: ")[0] for line in told] == [
        "warning: MLflow did not take the metric ../up",
        "warning: MLflow did not take the metric /top",
    ]
    client = MlflowClient(store)
    found = client.get_run(str(run.run_id))
    assert (found.info.status, found.data.metrics) == ("FINISHED", {"loss": 2.0, "score.mean": 0.5})
    assert len(client.get_metric_history(str(run.run_id), "loss")) == 3
    assert found.data.tags["dvc.out.data/base"] == "a" * 32


def test_an_ancestor_from_another_machine_is_left_out(made: Callable[[str], declared.Declared], store: str) -> None:
    stage = made("sft@marooned")
    write_json(stage.root / "data/runs/base.json", {"model_id": "m-00000000000000000000000000000000"})
    run = tracking.StageRun(stage, PARAMS, {}, REVISION)
    run.succeed({}, {})
    found = MlflowClient(store).get_run(str(run.run_id))
    assert found.info.status == "FINISHED"
    assert not found.inputs.model_inputs


def test_a_run_names_its_driver_and_its_experiment(
    made: Callable[[str], declared.Declared], store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tracking.PARENT, "feed")
    monkeypatch.setenv("DVC_EXP_NAME", "bold-crew")
    run = tracking.StageRun(made("base"), PARAMS, {}, REVISION)
    tags = MlflowClient(store).get_run(str(run.run_id)).data.tags
    assert (tags["mlflow.parentRunId"], tags["dvc.exp"]) == ("feed", "bold-crew")
    run.fail("KILLED")
    assert MlflowClient(store).get_run(str(run.run_id)).info.status == "KILLED"


def test_a_run_whose_process_died_is_closed_by_the_next(made: Callable[[str], declared.Declared], store: str) -> None:
    dead = tracking.StageRun(made("base"), PARAMS, {}, REVISION)
    alive = tracking.StageRun(made("base"), PARAMS, {}, REVISION)
    client = MlflowClient(store)
    assert client.get_run(str(dead.run_id)).info.status == "RUNNING"
    host, number, start = client.get_run(str(dead.run_id)).data.tags["process"].split(":")
    # The number was given to another process since.
    client.set_tag(str(dead.run_id), "process", f"{host}:{number}:{int(start) - 1}")
    tracking.StageRun(made("base"), PARAMS, {}, REVISION).succeed({}, {})
    assert client.get_run(str(dead.run_id)).info.status == "KILLED"
    assert client.get_run(str(alive.run_id)).info.status == "RUNNING"


def test_without_mlflow_the_stage_goes_on(
    made: Callable[[str], declared.Declared],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/no/such/folder/mlflow.db")
    (tmp_path / "no").write_text("a file where a folder is needed", encoding="utf-8")
    run = tracking.StageRun(made("base"), PARAMS, {}, REVISION)
    run.log(1, {"loss": 1.0})
    run.succeed({"score": 1}, {})
    assert (run.run_id, run.model_id) == (None, None)
    told = capsys.readouterr().err
    assert told.startswith("warning: MLflow could not open a run, going on without it:")
    assert told.count("warning:") == 1


def test_a_stage_that_fails_is_marked(
    made: Callable[[str], declared.Declared], store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from castaway.tasks.registry import read_params
    from castaway.tools.hardware import CPU
    from flows import stage as module

    stage = made("base")

    def sink(context: Any) -> dict[str, Any]:
        raise RuntimeError("the ship sinks")

    monkeypatch.setattr(module, "stage_body", lambda root, name: sink)
    with pytest.raises(RuntimeError, match="the ship sinks"):
        execute(stage, read_params(stage.root / "params.yaml"), CPU, tmp_path / "scratch")
    (found,) = [run for run in runs(store, stage) if run.info.status == "FAILED"]
    assert found.data.tags["dvc.stage"] == "base"


def test_sync_tags_runs_with_what_they_made(
    made: Callable[[str], declared.Declared], store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = made("base")
    run = tracking.StageRun(stage, PARAMS, {}, REVISION)
    run.succeed({}, {})
    record = {"run_id": run.run_id, "stage_key": "key"}
    entry = {"cmd": "x", "outs": [{"path": "data/base", "md5": "b" * 32}]}
    known = Locked("base", entry, record)
    known.record["stage_key"] = known.key
    unknown = Locked("sft@marooned", {**entry, "cmd": "y"}, {})
    assert lineage.sync(stage.root, {"base": known, "sft@marooned": unknown}) == 0
    assert MlflowClient(store).get_run(str(run.run_id)).data.tags["dvc.out.data/base"] == "b" * 32
    assert capsys.readouterr().out == "tagged 1 run, made 0; no record for sft@marooned\n"


def test_curves_survive_a_kill(tmp_path: Path) -> None:
    journal = tmp_path / "curves.jsonl"
    first = Curves(journal)
    for step in range(4):
        first.add(step, {"loss": float(step), "kl": math.inf})
    with journal.open("a") as file:
        file.write('{"step": 4, "lo')  # killed while writing

    resumed = Curves(journal)
    resumed.add(3, {"loss": 30.0})
    resumed.add(4, {"loss": 40.0})
    resumed.add(4, {"accuracy": 1})
    resumed.write(tmp_path / "plots" / "sft.jsonl")
    resumed.write(tmp_path / "plots" / "sft.json")
    lines = (tmp_path / "plots" / "sft.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines[2:] == [
        '{"step": 2, "loss": 2.0}',
        '{"step": 3, "loss": 30.0}',
        '{"step": 4, "accuracy": 1.0, "loss": 40.0}',
    ]
    # DVC's plots want every name in the first row.
    first_row = '{"step": 0, "accuracy": null, "loss": 0.0}'
    text = (tmp_path / "plots" / "sft.json").read_text(encoding="utf-8")
    assert text == "[\n" + ",\n".join([first_row, *lines[1:]]) + "\n]\n"
    resumed.forget()
    assert not journal.exists()


def test_a_record_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert read_json(tmp_path / "nothing.json") == {}
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    assert read_json(tmp_path / "broken.json") == {}
    write_json(tmp_path / "data/marooned/runs/sft.json", {"run_id": "x"})
    assert record_of(tmp_path, "data/marooned/sft") == {"run_id": "x"}
