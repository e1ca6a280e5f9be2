"""The whole DAG in miniature, in a clone: built, cached, rebuilt from a changed parameter, restored, and evaluated."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path

import pytest
from mlflow import MlflowClient

from castaway.metrics.ledger import FILE as LEDGER
from castaway.metrics.ledger import read as read_ledger
from castaway.rollout.outcomes import outcomes_path, read_outcomes
from castaway.tracking.store import EXPERIMENT
from flows.pipeline_run import DRIVER
from tests.flows.running import PrefectServer
from tests.miniature import BASES, RECORDED, STAGES, TASKS, edited, every, hashes, make_clone, processor_maker, ran, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pipeline in miniature, built once by the driver: two stages side by side, reported to a Prefect server."""
    root = tmp_path_factory.mktemp("clone")
    make_clone(root)
    server = PrefectServer(tmp_path_factory.mktemp("prefect"))
    try:
        run(root, "python", "-m", "flows", "pipeline", PREFECT_API_URL=server.address)
        states = server.states("task_runs")
        artifacts = {one["type"]: one["data"] for one in server.ask("artifacts/filter")}
    finally:
        server.kill()
    assert len(json.loads(artifacts["table"])) == len(states)
    assert all(f"## {task}" in artifacts["markdown"] for task in TASKS)
    assert states == dict.fromkeys([*BASES, *every(*STAGES)], "Ran")
    return root


def test_another_machine_gave_the_same_bytes(clone: Path) -> None:
    """One thread, the same instructions; `hashes.json` has those of processors of each maker, recorded elsewhere.

    They are also those of `dvc repro`, one stage after another and without a server: see `test_one_run.py`.
    """
    maker, recorded, built = processor_maker(), json.loads(RECORDED.read_text("utf-8")), hashes(clone)
    if os.environ.get("RECORD_HASHES"):
        recorded = {**recorded, maker: built}
        RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")
    if maker not in recorded:
        pytest.skip(f"no hashes are recorded for processors of {maker}")
    differing = [out for out, md5 in recorded[maker].items() if built.get(out) != md5]
    assert not differing, "if these are meant to change: RECORD_HASHES=1 pytest tests/test_whole_pipeline.py"


def test_every_stage_left_its_figures_and_a_run_that_came_to_its_end(clone: Path) -> None:
    client = MlflowClient(f"sqlite:///{clone / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name(EXPERIMENT).experiment_id])
    (driver,) = [one for one in runs if one.info.run_name == DRIVER]
    assert "| final " in Path(client.download_artifacts(driver.info.run_id, "results.md")).read_text()
    assert {one.info.status for one in runs} == {"FINISHED"}
    of_stages = [one for one in runs if one is not driver]
    assert sorted(one.data.tags["dvc.stage"] for one in of_stages) == sorted([*BASES, *every(*STAGES)])
    for one in of_stages:
        assert one.data.tags["mlflow.parentRunId"] == driver.info.run_id
        name, _, of = one.data.tags["dvc.stage"].partition("@")
        headline, figures, record, published = (
            json.loads((clone / f"data/{of}/{kind}/{name}.json").read_text())
            for kind in ("metrics", "figures", "runs", "published")
        )
        assert 1 <= len(headline) <= 10 and published == {"figures": figures, "record": record}
        assert record["run_id"] == one.info.run_id and record["stage_key"]


@pytest.mark.parametrize(("task", "seat", "further"), [("marooned", "crew", "traitor_"), ("strictbot", "one", "")])
def test_evaluation_speaks_of_every_policy_with_intervals_and_keeps_every_outcome(
    clone: Path, task: str, seat: str, further: str
) -> None:
    figures = json.loads((clone / f"data/{task}/figures/evaluate.json").read_text())
    for policy in ("base", "sft", "ppo", "final", "demonstrators", "expert", "random"):
        row = figures[policy]
        assert row["episodes"] == (1 if policy == "base" else 4) and row["turns"] > 0
        for name in ("invalid_rate", "success_rate", "mean_return", f"{further}success_rate"):
            assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
    text = outcomes_path(clone, task).read_text("utf-8")
    for policy in ("base", "sft", "ppo", "final", "demonstrators"):
        outcomes = read_outcomes(text, policy, seat)
        count = figures[policy]["episodes"]
        assert len(outcomes) == count and sum(outcomes.values()) / count == figures[policy]["success_rate"]
    asking, *_ = read_ledger(clone / f"data/{task}/metrics/{LEDGER}")
    assert asking["seed"] == 1 and asking["weights"][f"data/{task}/correction_sft"].endswith(".dir")


def test_a_declared_experiment_is_built_beside_the_run(clone: Path) -> None:
    """With one seed, so that all but the last stages come from the cache; more are in `flows/test_experiment.py`."""
    before = hashes(clone)
    declared = {
        "tiny@strictbot": {
            "about": "Corrections",
            "seeds": [1],
            "block": 70,
            "policies": ["ppo", "final"],
            "variants": {"as shipped": {}, "dpo": {"correction_sft.method": "dpo"}},
        }
    }
    experiments = clone / "experiments.yaml"
    shipped = experiments.read_text("utf-8")
    experiments.write_text(json.dumps(declared), "utf-8")
    run(clone, "git", "commit", "-qam", "An experiment")
    built = ran(run(clone, "python", "-m", "flows", "experiment", "tiny@strictbot"))
    assert built[:1] == ["evaluate@strictbot"] and set(built) <= {"correction_sft@strictbot", "evaluate@strictbot"}
    rows = json.loads((clone / "data/strictbot/experiments/tiny.json").read_text("utf-8"))["rows"]
    assert {variant: list(seeds) for variant, seeds in rows.items()} == {"as shipped": ["1"], "dpo": ["1"]}
    assert rows["dpo"]["1"]["policies"]["ppo"] == rows["as shipped"]["1"]["policies"]["ppo"]
    assert "| dpo " in run(clone, "python", "-m", "castaway.tools.cli.main", "results", "--all")
    experiments.write_text(shipped, "utf-8")
    assert hashes(clone) == before


def test_a_changed_parameter_rebuilds_what_depends_on_it_and_a_second_run_shares_bytes(clone: Path) -> None:
    before, shipped = hashes(clone), (clone / "params.yaml").read_bytes()
    with edited(clone / "params.yaml") as params:
        params["ppo"]["learning_rate"] = 2e-3
        params["tasks"]["warm"] = {**copy.deepcopy(params["tasks"]["strictbot"]), "evaluate": {"temperature": 1.0}}
    built = ran(run(clone, "dvc", "repro", "sft@warm", "evaluate@strictbot", "merge@strictbot"))
    changed = [f"{stage}@strictbot" for stage in ("correction_sft", "evaluate", "merge", "ppo")]
    assert sorted(built) == sorted(["dataset@warm", "sft@warm", *changed])
    after = hashes(clone)
    # The data set's card has the name of its run.
    assert after["data/warm/sft"] == before["data/strictbot/sft"]
    # Set back, everything comes from the cache.
    (clone / "params.yaml").write_bytes(shipped)
    assert ran(run(clone, "dvc", "repro")) == []
    assert before.items() <= hashes(clone).items()
