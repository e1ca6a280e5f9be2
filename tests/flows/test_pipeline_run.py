"""The MLflow run of a build has what one needs to compare it with others."""

from collections.abc import Callable
from pathlib import Path

from mlflow import MlflowClient

from castaway.tasks.registry import read_params
from castaway.tracking.dvc_stage import DvcStage
from castaway.tracking.records import write_json
from castaway.tracking.store import EXPERIMENT, runs_page
from flows.pipeline_run import DRIVER, PipelineRun
from flows.steps import Outcome, Step
from tests.flows.running import runs_of

RATES = {"success_rate": 0.8, "success_rate_low": 0.7, "success_rate_high": 0.9, "invalid_rate": 0.01, "episodes": 300}


def step(address: str) -> Step:
    return Step(address, (), "cpu", 1.0, (f"data/{address}",))


def test_builds_can_be_compared(made: Callable[[str], DvcStage], store: str) -> None:
    root = made("base").root
    figures = {name: RATES for name in ("sft", "ppo", "final", "expert")}
    write_json(root / "data/marooned/figures/evaluate.json", figures)
    outcomes = [
        Outcome(step("sft@marooned"), "Ran", 12.0),
        Outcome(step("evaluate@marooned"), "Cached"),
        Outcome(step("evaluate@strictbot"), "Failed", 1.0, "sank"),
    ]
    targets, params = ["evaluate@marooned", "evaluate@strictbot"], read_params(root / "params.yaml")
    own = params.for_run("marooned").ppo
    with PipelineRun(root, targets, params, [one.step for one in outcomes]) as run:
        run.finish(outcomes, "## marooned")
    client = MlflowClient(store)
    (found,) = runs_of(client, DRIVER)
    assert found.info.status == "FAILED"
    told = found.data.params
    expected = {
        "targets": " ".join(targets),
        **{"seed": 1, "device": "cpu", "threads": 1, "teacher.kind": "rules", "strictbot.base": "answers"},
        **{"marooned.ppo.steps": own.steps, "marooned.ppo.learning_rate": own.learning_rate},
    }
    assert {key: told[key] for key in expected} == {key: str(value) for key, value in expected.items()}
    assert not any(key.startswith("openspiel.") for key in told)  # of which this build has no stage
    metrics = found.data.metrics
    assert metrics.pop("seconds") >= 0
    assert metrics == {
        "stages_ran": 1,
        "stages_cached": 1,
        **{f"marooned.{name}.success_rate": 0.8 for name in ("sft", "ppo", "final", "expert")},
        "marooned.final.success_rate_low": 0.7,
        "marooned.final.success_rate_high": 0.9,
        "marooned.invalid_rate": 0.01,
        "marooned.episodes": 300,
    }
    assert [one.path for one in client.list_artifacts(found.info.run_id)] == ["results.md", "stages.json"]


def test_the_page_of_the_runs_is_that_of_model_training(made: Callable[[str], DvcStage], store: str) -> None:
    root, server = made("base").root, "http://127.0.0.1:5000"
    assert runs_page(root, server) == f"{server}/#/experiments?workflowType=machine_learning"
    (root / "mlflow.db").write_bytes(Path(store.removeprefix("sqlite:///")).read_bytes())
    experiment = MlflowClient(f"sqlite:///{root}/mlflow.db").create_experiment(EXPERIMENT)
    assert runs_page(root, server) == f"{server}/#/experiments/{experiment}/runs?workflowType=machine_learning"
