"""One run through all stages by DVC; PPO is killed on the way, and everything has the bytes that were recorded."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.miniature import RECORDED, STAGES, edited, environment, hashes, make_clone, processor_maker, ran, run


@pytest.mark.slow
def test_a_killed_build_goes_on_and_ends_in_the_recorded_bytes(tmp_path: Path) -> None:
    make_clone(tmp_path)
    with edited(tmp_path / "params.yaml") as params:
        params["tasks"] = {"strictbot": params["tasks"]["strictbot"]}
        params["bases"] = {"answers": params["bases"]["answers"]}
    # The bytes were recorded where two processes share out the policies of an evaluation.
    with edited(tmp_path / "dvc.yaml") as pipeline:
        assert pipeline["stages"]["evaluate"]["do"]["meta"].pop("cpu_processes") == 2

    # Killed as soon as PPO has a checkpoint, the whole family of processes at once.
    build = subprocess.Popen(["dvc", "repro"], cwd=tmp_path, env=environment(), start_new_session=True)
    while not any((tmp_path / "scratch").glob("strictbot/ppo/*/step-*.pt")):
        try:
            assert build.wait(0.02) is None, "the build ended before PPO had a checkpoint"
        except subprocess.TimeoutExpired:
            continue
    os.killpg(build.pid, signal.SIGKILL)
    build.wait()

    executed = ran(run(tmp_path, "dvc", "repro"))
    assert executed[0] == "ppo@strictbot" and "base@answers" not in executed
    assert ran(run(tmp_path, "dvc", "repro")) == []
    built = hashes(tmp_path)
    assert {f"data/strictbot/{stage}" for stage in STAGES} <= set(built)
    recorded = json.loads(RECORDED.read_text("utf-8")).get(processor_maker(), {})
    assert not [out for out, md5 in built.items() if recorded.get(out, md5) != md5]

    # Every stage left a run that ended, the killed one aside.
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    runs = client.search_runs([one.experiment_id for one in client.search_experiments()])
    assert sorted({one.info.status for one in runs}) == ["FINISHED", "KILLED"]
    assert {one.info.run_name for one in runs if one.info.status == "FINISHED"} == {
        "base@answers",
        *(f"{stage}@strictbot" for stage in STAGES),
    }
