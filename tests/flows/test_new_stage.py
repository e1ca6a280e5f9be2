"""A new stage is its file, its section and its block in dvc.yaml: no list of stages stands anywhere else."""

from __future__ import annotations

import json
from pathlib import Path

from tests.miniature import edited, make_clone, ran, run

BODY = '''"""count: how many legal actions the first prompt of an episode has."""

from typing import Any

from castaway.tasks.registry import task_of
from stages.context import Context


def run(context: Context) -> dict[str, Any]:
    """Count them in a few episodes."""
    environment = task_of(context.params, context.run).make()
    found = []
    for task_id in range(context.params.count.episodes):
        environment.reset(task_id, environment.seats[0])
        found.append(len(environment.rules.legal_actions(environment.prompts()[0].observation)))
        context.log(task_id, {"actions": found[-1]})
    (context.output / "counts.json").write_text(str(found))
    return {"most": max(found)}
'''
SECTION = '''

class CountParams(StageSection):
    """Counting."""

    episodes: PositiveInteger
'''


def test_a_new_stage_needs_three_places(tmp_path: Path) -> None:
    make_clone(tmp_path)
    (tmp_path / "stages/count.py").write_text(BODY, "utf-8")
    sections, params = (tmp_path / f"castaway/config/{name}.py" for name in ("sections", "params"))
    sections.write_text(sections.read_text("utf-8") + SECTION, "utf-8")
    text = params.read_text("utf-8").replace("    BaseParams,\n", "    BaseParams,\n    CountParams,\n", 1)
    params.write_text(
        text.replace("    merge: MergeParams\n", "    merge: MergeParams\n    count: CountParams\n", 1), "utf-8"
    )
    with edited(tmp_path / "params.yaml") as content:
        content["count"] = {"episodes": 3}
        content["tasks"]["openspiel"]["count"] = {"episodes": 2}
    with edited(tmp_path / "dvc.yaml") as content:
        block = {"desc": "Counted actions of ${key}", "meta": {"device": "cpu", "timeout_minutes": 5}}
        content["stages"]["count"] = {"foreach": "${tasks}", "do": block}

    # The lists are written, the stage runs under DVC, and is tracked like the others.
    run(tmp_path, "python", "-m", "flows", "closure", "--write")
    assert ran(run(tmp_path, "dvc", "repro", "count@openspiel")) == ["count@openspiel"]
    assert len(json.loads((tmp_path / "data/openspiel/count/counts.json").read_text("utf-8"))) == 2
    assert json.loads((tmp_path / "data/openspiel/metrics/count.json").read_text("utf-8"))["most"] > 1
    assert len((tmp_path / "data/openspiel/plots/count.jsonl").read_text("utf-8").splitlines()) == 2
    assert json.loads((tmp_path / "data/openspiel/runs/count.json").read_text("utf-8"))["run_id"]
    assert ran(run(tmp_path, "dvc", "repro", "count@openspiel")) == []
