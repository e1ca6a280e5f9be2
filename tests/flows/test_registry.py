"""Models are registered by real builds, in a real store; the champion is the best that passed its gate."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from castaway.tools.lineage.locked import locked_stages
from flows.registry import CHAMPION, EVALUATION, GATE
from tests.flows.conftest import EVALUATE, Repository

PIPELINE = "stages:\n" + "".join(
    f"""\
  {name}:
    matrix: {{run: [marooned]}}
    cmd: python -m flows {name}@${{item.run}}
    params: [seed, tasks.marooned.task]
    outs: [data/marooned/{name}]
    metrics:
      - data/marooned/metrics/{name}.json: {{cache: false}}
      - data/marooned/runs/{name}.json: {{cache: false}}
"""
    for name in ("evaluate", "merge")
)
MERGE = """
def run(context):
    (context.output / "model.safetensors").write_text(f"weights {context.params.seed}")
    return {"parameters": 1}
"""


@pytest.fixture
def ship(repository: Callable[[str], Repository], empty_store: Path) -> Repository:
    made = repository(PIPELINE)
    made.write("stages/merge.py", MERGE)
    made.write("stages/evaluate.py", EVALUATE)
    made.write("mlflow.db", "")
    (made.root / "mlflow.db").write_bytes(empty_store.read_bytes())
    return made


def build(ship: Repository, before: int, after: int) -> str:
    if before != after:
        ship.change("params.yaml", f"seed: {before}", f"seed: {after}")
    done = ship.run("flows", "pipeline")
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    return next((line for line in done.stdout.splitlines() if line.startswith("marooned:")), "")


@pytest.mark.slow
def test_the_champion_is_replaced_by_a_better_model_alone(ship: Repository) -> None:
    mlflow = MlflowClient(f"sqlite:///{ship.root}/mlflow.db")

    def champion() -> str:
        return str(mlflow.get_model_version_by_alias("marooned", CHAMPION).version)

    first_told = "marooned: version 1 is the champion: there was no champion"
    assert build(ship, 1, 1) == first_told
    repeated = ship.run("flows", "promote")
    assert (repeated.returncode, repeated.stdout, repeated.stderr) == (0, f"{first_told}\n", "")
    told = build(ship, 1, 2)
    # The gate of the shipped run asks for 40 %, and of 200 episodes 60 were won.
    assert told.startswith("marooned: version 2 is not the champion: success may be 24.1 %, and gate.success_rate is")
    assert "success -30.0 points" in told
    assert champion() == "1"
    assert "version 3 is the champion: success +30.0 points" in build(ship, 2, 3)
    assert champion() == "3"

    # Back to the first: restored from the cache, so nothing is registered; by hand it is what it was.
    assert build(ship, 3, 1) == ""
    again = ship.run("flows", "promote", "marooned")
    assert again.returncode == 1, again.stderr
    assert again.stdout.startswith("marooned: version 1 is not the champion: success -30.0 points")
    assert champion() == "3"
    versions = {one.version: one for one in mlflow.search_model_versions("name = 'marooned'")}
    assert sorted(map(str, versions)) == ["1", "2", "3"]
    merged = locked_stages(ship.root)["merge@marooned"]
    first = next(one for number, one in versions.items() if str(number) == "1")
    assert first.tags["dvc.out"] == merged.outs["data/marooned/merge"]
    assert GATE in first.tags
    assert mlflow.get_run(first.run_id).data.tags["dvc.stage"] == "merge@marooned"

    # A new store, as in a clone: the runs are made again, and with them the model, which is the first there.
    (ship.root / "mlflow.db").unlink()
    refused = ship.run("flows", "promote")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "`python -m flows lineage sync` makes it again" in refused.stderr
    assert ship.run("flows", "lineage", "check").returncode == 1
    assert ship.run("flows", "lineage", "sync").returncode == 0
    checked = ship.run("flows", "lineage", "check")
    assert (checked.returncode, checked.stdout) == (
        0, "2 of 2 stages have a finished run with their metrics, model and hashes\n"
    ), checked.stderr  # fmt: skip
    promoted = ship.run("flows", "promote")
    assert (promoted.returncode, promoted.stdout) == (0, "marooned: version 1 is the champion: there was no champion\n")


@pytest.mark.slow
def test_what_cannot_be_promoted_is_told(ship: Repository) -> None:
    nothing = ship.run("flows", "promote")
    assert nothing.returncode == 2 and "nothing has been built yet" in nothing.stderr
    build(ship, 1, 1)
    unknown = ship.run("flows", "promote", "mutiny")
    assert (unknown.returncode, unknown.stderr) == (
        2, "error: params.yaml has no run mutiny; it has marooned, openspiel, strictbot\n"
    )  # fmt: skip
    # A champion that somebody chose by hand has no evaluation to be compared with.
    MlflowClient(f"sqlite:///{ship.root}/mlflow.db").delete_model_version_tag("marooned", "1", EVALUATION)
    ship.change("params.yaml", "seed: 1", "seed: 3")
    told = ship.run("flows", "pipeline").stderr
    assert (
        f"version 1 of marooned is the champion, but its tag {EVALUATION}, the run of its evaluation, is missing"
        in told
    )
    (ship.root / "data/marooned/evaluate/outcomes.jsonl").unlink()
    missing = ship.run("flows", "promote", "marooned")
    assert missing.returncode == 2 and "`dvc checkout evaluate@marooned` restores it" in missing.stderr
    record = ship.root / "data/marooned/runs/merge.json"
    record.write_text(json.dumps({}))
    unrecorded = ship.run("flows", "promote", "marooned")
    assert unrecorded.returncode == 2 and "no record says what made merge@marooned" in unrecorded.stderr
