"""Models are registered by real builds, in a real store; the champion is the best that passed its gate."""

import json
import re
from collections.abc import Callable

import pytest
from mlflow import MlflowClient

from castaway.metrics.built import locked_stages
from castaway.tracking.registry import CHAMPION, EVALUATION, GATE
from tests.flows.conftest import EVALUATE, Repository, of_marooned
from tests.miniature import set_params

PIPELINE = of_marooned(dict.fromkeys(("evaluate", "merge"), ((), "seed, tasks.marooned.task")))
MERGE = """
def run(context):
    (context.output / "model.safetensors").write_text(f"weights {context.params.seed}")
    return {"parameters": 1}
"""
FIRST = "marooned: version 1 is the champion: there was no champion"


@pytest.fixture
def ship(repository: Callable[[str], Repository]) -> Repository:
    made = repository(PIPELINE)
    made.write("stages/merge.py", MERGE)
    made.write("stages/evaluate.py", EVALUATE)
    return made


@pytest.mark.slow
def test_the_champion_is_replaced_by_a_better_model_alone(ship: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    mlflow = MlflowClient(f"sqlite:///{ship.root}/mlflow.db")

    def build(seed: int) -> str:
        set_params(ship.root, {"seed": seed})
        assert ship.drive("pipeline") == 0
        told = capsys.readouterr()
        assert "warning" not in told.err
        lines = re.search(r"^marooned: version .*(\n  .*)*", told.out, re.MULTILINE)
        return " ".join(lines[0].split()) if lines else ""

    def champion() -> str:
        return str(mlflow.get_model_version_by_alias("marooned", CHAMPION).version)

    assert build(1) == FIRST
    assert ship.drive("promote") == 0
    assert capsys.readouterr() == (f"{FIRST}\n", "")
    told = build(2)
    # The gate of the shipped run asks for 40 %, and of 200 episodes 60 were won.
    assert told.startswith("marooned: version 2 is not the champion: success may be 24.1 %, and gate.success_rate is")
    assert "success -30.0 points" in told
    assert champion() == "1"
    assert "version 3 is the champion: success +30.0 points" in build(3)
    assert champion() == "3"

    # Back to the first: restored from the cache, so nothing is registered; by hand it is what it was.
    assert build(1) == ""
    assert ship.drive("promote", "marooned") == 1
    assert capsys.readouterr().out.startswith("marooned: version 1 is not the champion: success -30.0 points")
    assert champion() == "3"
    versions = {str(one.version): one for one in mlflow.search_model_versions("name = 'marooned'")}
    assert sorted(versions) == ["1", "2", "3"]
    merged = locked_stages(ship.root)["merge@marooned"]
    assert versions["1"].tags["dvc.out"] == merged.outs["data/marooned/merge"]
    assert GATE in versions["1"].tags
    assert mlflow.get_run(versions["1"].run_id).data.tags["dvc.stage"] == "merge@marooned"

    # A new store, as in a clone: the runs are made again, and with them the model, which is the first there.
    (ship.root / "mlflow.db").unlink()
    refused = ship.run("flows", "promote")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "`python -m flows lineage sync` makes it again" in refused.stderr
    assert ship.run("flows", "lineage", "sync").returncode == 0
    checked = ship.run("flows", "lineage", "check")
    assert (checked.returncode, checked.stdout) == (
        0, "2 of 2 stages have a finished run with their metrics, model and hashes\n"
    ), checked.stderr  # fmt: skip
    promoted = ship.run("flows", "promote")
    assert (promoted.returncode, promoted.stdout) == (0, f"{FIRST}\n")


@pytest.mark.slow
def test_what_cannot_be_promoted_is_told(ship: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    def refusal(*runs: str) -> str:
        assert ship.drive("promote", *runs) == 2
        return capsys.readouterr().err

    assert "nothing has been built yet" in refusal()
    assert ship.drive("pipeline") == 0
    assert refusal("mutiny") == (
        "error: params.yaml has no run mutiny; expected one of marooned, openspiel, strictbot\n"
    )
    # A champion that somebody chose by hand has no evaluation to be compared with.
    MlflowClient(f"sqlite:///{ship.root}/mlflow.db").delete_model_version_tag("marooned", "1", EVALUATION)
    set_params(ship.root, {"seed": 3})
    ship.drive("pipeline")
    sentence = f"version 1 of marooned is the champion, but its tag {EVALUATION}, the run of its evaluation, is missing"
    assert sentence in capsys.readouterr().err
    (ship.root / "data/marooned/evaluate/outcomes.jsonl").unlink()
    assert "`dvc checkout evaluate@marooned` restores it" in refusal("marooned")
    for kind in ("runs", "published"):
        (ship.root / f"data/marooned/{kind}/merge.json").write_text(json.dumps({}))
    assert "no record says what made merge@marooned" in refusal("marooned")
