"""An experiment in a copy: it reports to the original repository, and nothing that was paid for is lost."""

from collections.abc import Callable

import pytest
from mlflow import MlflowClient

from castaway.metrics.built import built
from castaway.tools.experiments import experiments
from tests.flows.conftest import BASE_ALONE, Repository
from tests.flows.running import runs_of

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


@pytest.mark.slow
def test_an_experiment_goes_on_where_it_stopped(repository: Callable[[str], Repository]) -> None:
    """In a temporary copy, which DVC's queue works in too."""
    ship = repository(BASE_ALONE)
    ship.write("stages/base.py", BODY)
    ship.commit()
    ship.write(".venv-vllm/bin/python", "")
    command = ("dvc", "exp", "run", "--temp", "--name", "bold-crew", "--set-param", "seed=5", "base")

    def checkpoints() -> list[str]:
        return [step.read_text() for step in (ship.root / "scratch").rglob("step")]

    assert ship.run(*command).returncode != 0 and checkpoints() == ["7"]
    done = ship.run(*command)
    assert done.returncode == 0, done.stderr
    assert checkpoints() == []
    paid = (ship.root / "scratch/verdicts.sqlite").read_text().splitlines()
    assert paid == 2 * ["an answer for seed 5"]

    failed, finished = runs_of(MlflowClient(f"sqlite:///{ship.root}/mlflow.db"), "base")
    assert (failed.info.status, finished.info.status) == ("FAILED", "FINISHED")
    assert (finished.data.params["seed"], finished.data.metrics["begin"]) == ("5", 7)
    assert finished.data.tags["dvc.exp"] == "bold-crew"
    assert not list((ship.root / ".dvc/tmp").rglob("mlflow.db"))
    # Its figures are in its commit, by which `castaway compare` knows them.
    assert built(ship.root, "", "base", dict(experiments(ship.root))["bold-crew"]).figures == {"begin": 7}
