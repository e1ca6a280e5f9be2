"""One stage from the command line: by DVC and by hand, well and badly, in a real repository."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from castaway.tasks.registry import read_params
from tests.flows.conftest import BODY, ROOT, Repository
from tests.flows.running import runs_of

PIPELINE = """\
stages:
  base:
    cmd: python -m flows base
    deps: [stages/base.py]
    params: [seed, base]
    outs: [data/base, data/plots/base.jsonl]
    metrics:
      - data/metrics/base.json: {cache: false}
      - data/runs/base.json: {cache: false}
    plots:
      - data/plots/base.json: {cache: false}
    meta: {device: "${device}"}
  sft:
    foreach: ${tasks}
    do:
      cmd: python -m flows sft@${key}
      deps: [data/base]
      params: [sft]
      outs: ["data/${key}/sft"]
      metrics:
        - data/${key}/metrics/sft.json: {cache: false}
        - data/${key}/runs/sft.json: {cache: false}
"""


@pytest.fixture
def project(repository: Callable[[str], Repository], empty_store: Path) -> Repository:
    made = repository(PIPELINE)
    made.write("stages/base.py", BODY)
    made.write("stages/sft.py", BODY)
    shutil.copy(empty_store, made.root)
    return made


def test_a_stage_runs_under_dvc_and_comes_back_from_the_cache(project: Repository) -> None:
    assert project.run("dvc", "repro", "base").returncode == 0
    root = project.root
    assert json.loads((root / "data/metrics/base.json").read_text()) == {
        "note": "text is not sent to MLflow",
        "score": {"best": 1, "mean": 0.5},
    }
    assert (root / "data/plots/base.jsonl").read_text().splitlines()[1] == '{"step": 1, "loss": 0.5}'
    assert [row["step"] for row in json.loads((root / "data/plots/base.json").read_text())] == [0, 1, 2]
    record = (root / "data/runs/base.json").read_text()
    key = json.loads(record)["stage_key"]
    assert (root / ".dvc/cache/runs" / key[:2] / key).is_dir()
    assert not [path for path in (root / "scratch").rglob("*") if path.is_file() or path.name == key[:12]]

    run = MlflowClient(f"sqlite:///{root}/mlflow.db").get_run(json.loads(record)["run_id"])
    assert run.info.status == "FINISHED"
    assert run.info.artifact_uri.startswith((root / "mlruns/castaway").as_uri())
    locked = (root / "dvc.lock").read_text()
    assert run.data.tags["dvc.out.data/base"] in locked

    project.change("params.yaml", "seed: 1", "seed: 2")
    assert project.run("dvc", "repro", "base").returncode == 0
    assert json.loads((root / "data/runs/base.json").read_text())["stage_key"] != key
    project.change("params.yaml", "seed: 2", "seed: 1")
    done = project.run("dvc", "repro", "base")
    assert "is cached - skipping run" in done.stdout
    assert (root / "data/runs/base.json").read_text() == record


def test_a_stage_runs_by_hand_from_below_with_an_empty_folder(project: Repository) -> None:
    project.write("data/base/left.txt", "from an earlier run")
    project.write("deep/er/nothing.txt", "")
    done = subprocess.run(
        [sys.executable, "-c", "from flows.__main__ import main; raise SystemExit(main(['base']))"],
        cwd=project.root / "deep/er",
        env=project.environment(PYTHONHASHSEED="0", PYTHONPATH=f"{project.root}{os.pathsep}{ROOT}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (project.root / "data/base").iterdir()) == ["weights.txt"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bass"], "dvc.yaml has no stage bass; did you mean base?"),
        (["sft@marooned"], "sft@marooned needs data/base, which does not exist; run `dvc repro sft@marooned`"),
        (["base", "sft@marooned"], "one stage at a time"),
    ],
)
def test_a_mistake_is_one_line(project: Repository, arguments: list[str], words: str) -> None:
    done = project.run("flows", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (project.root / "data").exists()


def test_without_its_device_a_stage_touches_nothing(project: Repository) -> None:
    project.change("params.yaml", "device: cpu", "device: mi300x")
    project.write("data/base/kept.txt", "of the last run")
    (project.root / "mlflow.db").unlink()
    done = project.run("flows", "base", HIP_VISIBLE_DEVICES="", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert done.stderr.startswith("error: base is pinned to mi300x but torch sees no GPU on this host; run it")
    assert done.stderr.count("\n") == 1
    assert (project.root / "data/base/kept.txt").exists()
    assert not (project.root / "scratch").exists()
    assert not (project.root / "mlflow.db").exists()


def test_a_stage_without_a_file_is_told(project: Repository) -> None:
    project.write("data/base/weights.txt", "1")
    (project.root / "stages/sft.py").unlink()
    done = project.run("flows", "sft@marooned")
    assert done.returncode == 2
    assert "stages/sft.py does not exist, though dvc.yaml names the stage sft" in done.stderr


def test_a_number_that_json_does_not_know_fails_the_stage(project: Repository) -> None:
    project.write("stages/base.py", "def run(context):\n    return {'loss': float('nan')}\n")
    done = project.run("flows", "base")
    assert done.returncode == 2
    assert "base.json: the stage returned a value that is not JSON" in done.stderr
    assert not (project.root / "data/runs/base.json").exists()


def test_a_killed_stage_resumes_where_it_was(project: Repository) -> None:
    project.write(
        "stages/base.py",
        """
def run(context):
    place = context.scratch / "step"
    begin = int(place.read_text()) if place.exists() else 0
    for step in range(begin, 4):
        context.log(step, {"begin": begin})
        place.write_text(str(step + 1))
        if step == 1:
            print("here", flush=True)
            input()
    (context.output / "weights.txt").write_text("done")
    return {}
""",
    )
    command = [sys.executable, "-m", "flows", "base"]
    first = subprocess.Popen(
        command, cwd=project.root, env=project.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "here\n"
    first.send_signal(signal.SIGTERM)
    assert first.wait() == 128 + signal.SIGTERM

    assert project.run("flows", "base").returncode == 0
    rows = [json.loads(line) for line in (project.root / "data/plots/base.jsonl").read_text().splitlines()]
    assert [(row["step"], row["begin"]) for row in rows] == [(0, 0), (1, 0), (2, 2), (3, 2)]
    client = MlflowClient(f"sqlite:///{project.root}/mlflow.db")
    assert [run.info.status for run in runs_of(client, "base")] == ["KILLED", "FINISHED"]


def test_stages_see_a_fixed_hash_seed_and_the_threads_of_the_parameters(project: Repository) -> None:
    project.write(
        "stages/base.py",
        """
import os
def run(context):
    assert os.environ["HF_HUB_OFFLINE"] == "1" and os.environ["DO_NOT_TRACK"] == "1"
    return {"hash": os.environ["PYTHONHASHSEED"], "threads": os.environ["OMP_NUM_THREADS"]}
""",
    )
    project.change("params.yaml", "threads: 1", "threads: 2")
    assert project.run("flows", "base").returncode == 0
    found = json.loads((project.root / "data/metrics/base.json").read_text())
    assert found == {"hash": "0", "threads": "2"}


def test_an_experiment_in_a_copy_reports_to_the_original(project: Repository) -> None:
    project.commit()
    done = project.run("dvc", "exp", "run", "--temp", "--name", "bold-crew", "--set-param", "seed=5", "base")
    assert done.returncode == 0, done.stderr
    client = MlflowClient(f"sqlite:///{project.root}/mlflow.db")
    (run,) = runs_of(client, "base")
    assert (run.data.params["seed"], run.data.tags["dvc.exp"]) == ("5", "bold-crew")


def test_a_run_is_built_with_what_it_sets_differently(project: Repository) -> None:
    project.write("data/base/weights.txt", "1")
    project.write("stages/sft.py", "def run(context):\n    return {'batch_size': context.params.sft.batch_size}\n")
    params = read_params(project.root / "params.yaml")
    sizes = {run: params.for_run(run).sft.batch_size for run in ("marooned", "openspiel")}
    assert sizes["marooned"] != sizes["openspiel"]
    for run, size in sizes.items():
        assert project.run("flows", f"sft@{run}").returncode == 0
        assert json.loads((project.root / f"data/{run}/metrics/sft.json").read_text()) == {"batch_size": size}
        record = json.loads((project.root / f"data/{run}/runs/sft.json").read_text())
        assert (record["task"], record["task_package"].split(" ")[0]) == (run, "castaway")
        found = MlflowClient(f"sqlite:///{project.root}/mlflow.db").get_run(record["run_id"])
        assert found.data.params["sft.batch_size"] == str(size)
        assert {name: found.data.tags[name] for name in ("task", "task_package", "threads")} == {
            "task": run,
            "task_package": record["task_package"],
            "threads": str(params.threads),
        }


def test_a_stage_cannot_read_what_it_does_not_depend_on(project: Repository) -> None:
    project.write("data/base/weights.txt", "1")
    project.write("stages/sft.py", "def run(context):\n    return {'steps': context.params.ppo.steps}\n")
    done = project.run("flows", "sft@marooned")
    assert done.returncode == 2
    assert done.stderr == "error: sft@marooned reads ppo, which dvc.yaml does not list in its `params`\n"
