"""Experiments in the workspace, in a copy, and in DVC's queue: one store, and nothing that was paid for is lost."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from flows.store import EXPERIMENT
from tests.flows.conftest import Repository
from tests.flows.running import until

PIPELINE = """\
stages:
  base:
    cmd: python -m flows base
    deps: [stages/base.py]
    params: [seed]
    outs: [data/base]
    metrics:
      - data/metrics/base.json: {cache: false}
      - data/runs/base.json: {cache: false}
"""
BODY = """
def run(context):
    assert (context.vllm / "bin/python").exists(), f"there is no vLLM in {context.vllm}"
    context.verdicts.parent.mkdir(parents=True, exist_ok=True)
    with context.verdicts.open("a") as file:
        file.write(f"an answer for seed {context.params.seed}\\n")
    place = context.scratch / "step"
    begin = int(place.read_text()) if place.exists() else 0
    place.write_text("7")
    if not begin:
        raise RuntimeError("the ship sinks")
    (context.output / "weights.txt").write_text(f"{context.params.seed}")
    return {"begin": begin}
"""
"""A stage that fails, and when it is started again goes on from its checkpoint."""


@pytest.fixture
def ship(repository: Callable[[str], Repository], empty_store: Path) -> Repository:
    made = repository(PIPELINE)
    made.write("stages/base.py", BODY)
    made.write(".gitignore", (made.root / ".gitignore").read_text() + "/.venv-vllm\n/mlflow.db*\n")
    made.commit()
    made.write(".venv-vllm/bin/python", "")
    shutil.copy(empty_store, made.root)
    return made


def steps(ship: Repository) -> list[Path]:
    """The checkpoints in the original repository."""
    return sorted((ship.root / "scratch").rglob("step"))


def tried(ship: Repository, *arguments: str) -> None:
    """Run experiments, in whatever way, to their end."""
    done = ship.run("dvc", "exp", "run", *arguments, "base")
    if "--queue" in arguments:
        assert done.returncode == 0, done.stderr
        assert ship.run("dvc", "queue", "start", "--jobs", "1").returncode == 0
        until(lambda: idle(ship), "the end of the queue")


def idle(ship: Repository) -> bool:
    told = ship.run("dvc", "queue", "status").stdout
    return not any(state in told for state in ("Queued", "Running"))


@pytest.mark.slow
@pytest.mark.parametrize("way", [(), ("--temp",), ("--queue",)], ids=["workspace", "temp", "queue"])
def test_each_experiment_goes_on_where_it_stopped(ship: Repository, way: tuple[str, ...]) -> None:
    # A queue takes several values, and runs one experiment for each: so seeds are swept.
    seeds = (5, 6) if way == ("--queue",) else (5,)
    chosen = ("--set-param", f"seed={','.join(map(str, seeds))}")
    tried(ship, *way, *chosen)
    assert [step.read_text() for step in steps(ship)] == ["7"] * len(seeds)
    tried(ship, *way, *chosen)
    assert steps(ship) == []
    paid = (ship.root / "scratch/verdicts.sqlite").read_text().splitlines()
    assert sorted(paid) == sorted(2 * [f"an answer for seed {seed}" for seed in seeds])

    client = MlflowClient(f"sqlite:///{ship.root}/mlflow.db")
    runs = client.search_runs([client.get_experiment_by_name(EXPERIMENT).experiment_id])
    found = sorted((run.data.params["seed"], run.info.status) for run in runs)
    assert found == sorted((str(seed), status) for seed in seeds for status in ("FAILED", "FINISHED"))
    finished = [run for run in runs if run.info.status == "FINISHED"]
    assert all(run.data.metrics["begin"] == 7 for run in finished)
    assert len({run.data.tags["dvc.exp"] for run in finished}) == len(seeds)
    assert not list((ship.root / ".dvc/tmp").rglob("mlflow.db"))
