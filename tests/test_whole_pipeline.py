"""The whole DAG in miniature, in a clone: built, cached, rebuilt from a changed parameter, restored, and evaluated."""

from __future__ import annotations

import copy
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from mlflow import MlflowClient
from transformers import AutoModelForCausalLM, AutoTokenizer

from castaway.datasets.outcomes import outcomes_path, read_outcomes
from castaway.metrics.ledger import FILE as LEDGER
from castaway.metrics.ledger import read as read_ledger
from castaway.tasks.registry import read_params
from flows.report import DRIVER
from flows.store import EXPERIMENT
from tests.flows.running import PrefectServer
from tests.miniature import (
    BASES,
    RECORDED,
    STAGES,
    TASKS,
    edited,
    every,
    hashes,
    make_clone,
    processor_maker,
    ran,
    run,
    set_params,
)

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


def test_second_build_runs_nothing(clone: Path) -> None:
    assert ran(run(clone, "dvc", "repro")) == []


@pytest.mark.parametrize("task", TASKS)
def test_every_stage_left_its_metrics_and_its_run(clone: Path, task: str) -> None:
    for stage in STAGES:
        assert json.loads((clone / f"data/{task}/metrics/{stage}.json").read_text())
        record = json.loads((clone / f"data/{task}/runs/{stage}.json").read_text())
        assert record["run_id"] and record["stage_key"]
    assert (clone / "mlflow.db").exists()


def test_every_run_of_the_build_came_to_its_end(clone: Path) -> None:
    client = MlflowClient(f"sqlite:///{clone / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name(EXPERIMENT).experiment_id])
    (driver,) = [one for one in runs if one.info.run_name == DRIVER]
    assert "| final " in Path(client.download_artifacts(driver.info.run_id, "results.md")).read_text()
    assert {one.info.status for one in runs} == {"FINISHED"}
    found = [one for one in runs if one is not driver]
    assert {one.data.tags["mlflow.parentRunId"] for one in found} == {driver.info.run_id}
    assert sorted(one.data.tags["dvc.stage"] for one in found) == sorted([*BASES, *every(*STAGES)])
    for one in found:
        name, _, of = one.data.tags["dvc.stage"].partition("@")
        assert json.loads((clone / f"data/{of}/runs/{name}.json").read_text())["run_id"] == one.info.run_id


@pytest.mark.parametrize(("task", "seat"), [("marooned", "traitor"), ("openspiel", "mcts-10")])
def test_evaluation_speaks_of_every_policy_with_intervals(clone: Path, task: str, seat: str) -> None:
    figures = json.loads((clone / f"data/{task}/metrics/evaluate.json").read_text())
    for policy in ("base", "sft", "ppo", "final", "demonstrators", "expert", "random"):
        row = figures[policy]
        assert row["episodes"] == 4 and row["turns"] > 0
        for name in ("invalid_rate", "success_rate", "mean_return", f"{seat}_success_rate"):
            assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
    asking, *_ = read_ledger(clone / f"data/{task}/metrics/{LEDGER}")
    assert asking["seed"] == 1 and asking["weights"][f"data/{task}/correction_sft"].endswith(".dir")


@pytest.mark.parametrize(("task", "seat"), [("marooned", "crew"), ("strictbot", "one")])
def test_the_outcome_of_every_episode_is_kept(clone: Path, task: str, seat: str) -> None:
    figures = json.loads((clone / f"data/{task}/metrics/evaluate.json").read_text())
    text = outcomes_path(clone, task).read_text("utf-8")
    seats = {json.loads(line)["seat"] for line in text.splitlines()}
    assert seat in seats, seats
    for player in ("base", "sft", "ppo", "final", "demonstrators"):
        found = read_outcomes(text, player, seat)
        assert len(found) == figures[player]["episodes"]
        assert sum(found.values()) / len(found) == figures[player]["success_rate"]


def test_merged_model_answers_with_plain_transformers(clone: Path) -> None:
    folder = clone / "data/marooned/merge"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "day 1"}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.inference_mode():
        output = model.generate(**prompt, max_new_tokens=4, do_sample=False)
    assert output.shape[1] > prompt["input_ids"].shape[1]


def test_corrections_read_back_as_legal_text(clone: Path) -> None:
    lines = (clone / "data/marooned/ppo/corrections.jsonl").read_text().splitlines()
    assert lines
    assert all("\nACTION: " in json.loads(line)["target"] for line in lines)


def test_forced_stages_give_the_same_bytes(clone: Path) -> None:
    """Those of the third task are made a second time by `test_one_run.py`."""
    before = hashes(clone)
    for stage in ("ppo@marooned", "ppo@openspiel"):
        assert ran(run(clone, "dvc", "repro", "-s", "-f", stage)) == [stage]
    assert hashes(clone) == before


def test_policies_that_play_beside_each_other_give_the_same_bytes_as_one_after_another(clone: Path) -> None:
    before, declared = hashes(clone), clone / "dvc.yaml"
    text = declared.read_text("utf-8")
    assert "cpu_processes: 2" in text
    try:
        declared.write_text(text.replace("cpu_processes: 2", "cpu_processes: 1"), "utf-8")
        assert ran(run(clone, "dvc", "repro", "-s", "-f", "evaluate@openspiel")) == ["evaluate@openspiel"]
        assert hashes(clone) == before
    finally:
        declared.write_text(text, "utf-8")


def test_a_hint_is_hidden_and_corrections_are_preferred_and_everything_stays_as_it_was(clone: Path) -> None:
    before = hashes(clone)
    run(clone, "python", "-m", "benchmarks.hints", "1", "--task", "strictbot", "--episodes", "4")
    found = json.loads((clone / "data/strictbot/metrics/hints.json").read_text("utf-8"))
    assert list(found) == ["all shown", "told"]
    assert all(0 <= found[name]["1"][policy]["success_rate"] <= 1 for name in found for policy in ("sft", "ppo"))
    assert not any((clone / "scratch/hints").iterdir())
    assert ran(run(clone, "dvc", "repro")) == [] and hashes(clone) == before
    variant = "dpo, learning rate 0.001"
    run(
        clone,
        "python",
        "-m",
        "benchmarks.corrections",
        "1",
        "--task",
        "strictbot",
        "--episodes",
        "4",
        "--variant",
        variant,
    )
    found = json.loads((clone / "data/strictbot/metrics/corrections.json").read_text("utf-8"))
    assert list(found) == ["no corrections", variant] and found[variant]["1"]["steps"] > 0
    assert ran(run(clone, "dvc", "repro")) == [] and hashes(clone) == before
    shown = run(clone, "python", "-m", "castaway.cli.main", "results")
    assert "| told " in shown and f"| {variant} " in shown


def test_a_changed_parameter_rebuilds_what_depends_on_it_and_comes_back_from_the_cache(clone: Path) -> None:
    """Of one task; that it is so in the others, too, is asked of `dvc status`."""
    before, built = hashes(clone), ("evaluate@strictbot", "merge@strictbot")
    set_params(clone, {"evaluate.episodes": 5})
    assert stale(clone) == every("evaluate")
    assert ran(run(clone, "dvc", "repro", "evaluate@strictbot")) == ["evaluate@strictbot"]
    shipped = read_params(clone / "params.yaml").ppo.learning_rate
    set_params(clone, {"evaluate.episodes": 4, "ppo.learning_rate": 2e-3})
    assert set(every("ppo")) <= set(stale(clone))
    changed = ran(run(clone, "dvc", "repro", *built))
    assert sorted(changed) == [f"{stage}@strictbot" for stage in ("correction_sft", "evaluate", "merge", "ppo")]
    set_params(clone, {"ppo.learning_rate": shipped})
    assert ran(run(clone, "dvc", "repro")) == []
    assert hashes(clone) == before


def test_a_second_run_that_differs_in_one_key_shares_what_it_can(clone: Path, tmp_path: Path) -> None:
    root = tmp_path / "clone"
    shutil.copytree(clone, root, symlinks=True)
    # The copy's runs belong into a store of its own.
    (root / "mlflow.db").unlink()
    before = hashes(root)
    with edited(root / "params.yaml") as params:
        params["tasks"]["warm"] = {**copy.deepcopy(params["tasks"]["strictbot"]), "evaluate": {"temperature": 1.0}}
    run(root, "python", "-m", "flows", "closure", "--write")
    executed = ran(run(root, "dvc", "repro", "evaluate@warm", "evaluate@strictbot"))
    assert {address.partition("@")[2] for address in executed} == {"warm"}
    assert "evaluate@warm" in executed

    # What the key does not reach has the same bytes; both stand in the results.
    after = hashes(root)
    assert {out: after[out] for out in before} == before
    assert after["data/warm/ppo"] == after["data/strictbot/ppo"]
    shown = run(root, "python", "-m", "castaway.cli.main", "results")
    assert all(f"### {name}\n" in shown for name in ("strictbot", "warm"))
    records = [
        json.loads((root / f"data/{name}/runs/evaluate.json").read_text("utf-8")) for name in ("strictbot", "warm")
    ]
    assert records[0]["stage_key"] != records[1]["stage_key"]


def stale(root: Path) -> list[str]:
    """The stages that DVC would build again because of what they read, in alphabetical order."""
    return sorted(json.loads(run(root, "dvc", "status", "--json")))
