"""One stage from the command line: by DVC and by hand, well and badly, in a real repository."""

import json
import os
import shutil
import signal
from collections.abc import Callable

import pytest
from mlflow import MlflowClient

from castaway.tasks.registry import read_params
from tests.flows.conftest import BASE_ALONE, BODY, ROOT, WITHOUT_MLFLOW, Repository
from tests.flows.running import runs_of
from tests.miniature import edited

SFT = """\
  sft:
    foreach: ${tasks}
    do:
      cmd: python -m flows sft@${key}
      deps: [data/base]
      params: [sft]
      outs: ["data/${key}/sft", "data/${key}/figures/sft.json", "data/${key}/runs/sft.json"]
      metrics:
        - data/${key}/metrics/sft.json: {cache: false}
"""


SEES = """
import os
def run(context):
    assert os.environ["HF_HUB_OFFLINE"] == "1" and os.environ["DO_NOT_TRACK"] == "1"
    return {"hash": os.environ["PYTHONHASHSEED"], "threads": os.environ["OMP_NUM_THREADS"]}
"""


@pytest.fixture
def project(repository: Callable[[str], Repository]) -> Repository:
    made = repository(BASE_ALONE + SFT)
    made.write("stages/base.py", BODY)
    made.write("stages/sft.py", BODY)
    return made


def test_a_stage_runs_under_dvc_and_comes_back_from_the_cache(project: Repository) -> None:
    assert project.run("dvc", "repro", "base").returncode == 0
    root = project.root
    assert json.loads((root / "data/metrics/base.json").read_text()) == {"best": 1, "mean": 0.3333}
    assert json.loads((root / "data/figures/base.json").read_text()) == {
        "note": "text is not sent to MLflow",
        "score": {"best": 1, "mean": 1 / 3},
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

    for folder in ("base", "runs"):
        shutil.rmtree(root / "data" / folder)
    (root / "dvc.lock").unlink()
    done = project.run("dvc", "repro", "base")
    assert "is cached - skipping run" in done.stdout
    assert (root / "data/runs/base.json").read_text() == record


def test_a_stage_runs_by_hand_from_below_with_an_empty_folder(project: Repository) -> None:
    project.write("data/base/left.txt", "from an earlier run")
    project.write("deep/er/nothing.txt", "")
    project.write("stages/base.py", SEES)
    project.change("params.yaml", "threads: 1", "threads: 2")
    path = f"{project.root}{os.pathsep}{ROOT}"
    done = Repository(project.root / "deep/er").run("flows", "base", PYTHONPATH=path, **WITHOUT_MLFLOW)
    assert done.returncode == 0, done.stderr
    assert list((project.root / "data/base").iterdir()) == []
    found = json.loads((project.root / "data/figures/base.json").read_text())
    assert found == {"hash": "0", "threads": "2"}


@pytest.mark.parametrize(
    ("stage", "body", "told"),
    [
        ("bass", "", "dvc.yaml has no stage bass; did you mean base?"),
        ("base", "{'loss': float('nan')}", "base.json: the stage returned a value that is not JSON"),
        ("sft@marooned", "{'steps': context.params.ppo.steps}", "sft@marooned reads ppo, which dvc.yaml does not list"),
    ],
)
def test_a_mistake_is_one_line(project: Repository, stage: str, body: str, told: str) -> None:
    project.write("data/base/weights.txt", "1")
    project.write(f"stages/{stage.partition('@')[0]}.py", f"def run(context):\n    return {body}\n")
    done = project.run("flows", stage, **WITHOUT_MLFLOW)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ") and told in last
    assert not list((project.root / "data").rglob("runs"))


@pytest.mark.slow
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
    first = project.start("flows", "base")
    assert first.stdout is not None
    assert "here\n" in first.stdout
    first.send_signal(signal.SIGTERM)
    assert first.wait() == 128 + signal.SIGTERM

    assert project.run("flows", "base").returncode == 0
    rows = [json.loads(line) for line in (project.root / "data/plots/base.jsonl").read_text().splitlines()]
    assert [(row["step"], row["begin"]) for row in rows] == [(0, 0), (1, 0), (2, 2), (3, 2)]
    client = MlflowClient(f"sqlite:///{project.root}/mlflow.db")
    assert [run.info.status for run in runs_of(client, "base")] == ["KILLED", "FINISHED"]


def test_a_run_is_built_with_what_it_sets_differently(project: Repository) -> None:
    project.write("data/base/weights.txt", "1")
    project.write("stages/sft.py", "def run(context):\n    return {'batch_size': context.params.sft.batch_size}\n")
    params = read_params(project.root / "params.yaml")
    size = params.sft.batch_size + 1
    with edited(project.root / "params.yaml") as content:
        content["tasks"]["openspiel"]["sft"] = {"batch_size": size}
    assert project.run("flows", "sft@openspiel").returncode == 0
    assert json.loads((project.root / "data/openspiel/figures/sft.json").read_text()) == {"batch_size": size}
    record = json.loads((project.root / "data/openspiel/runs/sft.json").read_text())
    assert (record["task"], record["task_package"].split(" ")[0]) == ("openspiel", "castaway")
    found = MlflowClient(f"sqlite:///{project.root}/mlflow.db").get_run(record["run_id"])
    assert found.data.params["sft.batch_size"] == str(size)
    assert {name: found.data.tags[name] for name in ("task", "task_package", "threads")} == {
        "task": "openspiel",
        "task_package": record["task_package"],
        "threads": str(params.threads),
    }
