"""A new stage is its file, its section and its block in dvc.yaml: no list of stages stands anywhere else."""

import json
from pathlib import Path

import pytest

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
BLOCK = """
  count:
    foreach: ${tasks}
    do:
      desc: Counted actions of ${key}
      cmd: python -m flows count@${key}
      deps: [stages/count.py, "${item.code}", castaway/tasks]
      params: [count, "tasks.${key}.count", "tasks.${key}.game", "tasks.${key}.task"]
      outs: ["data/${key}/count", "data/${key}/figures/count.json", "data/${key}/runs/count.json",
        "data/${key}/plots/count.jsonl"]
      metrics: ["data/${key}/metrics/count.json": {cache: false}]
      plots: ["data/${key}/plots/count.json": {cache: false, x: step, y: actions}]
      meta: {device: cpu, timeout_minutes: 5}
"""


@pytest.mark.slow
def test_a_new_stage_needs_three_places(tmp_path: Path) -> None:
    make_clone(tmp_path)
    (tmp_path / "stages/count.py").write_text(BODY, "utf-8")
    sections, params = (tmp_path / f"castaway/config/{name}.py" for name in ("sections", "params"))
    sections.write_text(sections.read_text("utf-8") + SECTION, "utf-8")
    last = "    merge: sections.MergeParams\n"
    text = params.read_text("utf-8")
    assert last in text
    params.write_text(text.replace(last, f"{last}    count: sections.CountParams\n", 1), "utf-8")
    with edited(tmp_path / "params.yaml") as content:
        content["count"] = {"episodes": 3}
        for run_ in content["tasks"].values():
            run_["count"] = {}
        content["tasks"]["openspiel"]["count"]["episodes"] = 2
    with (tmp_path / "dvc.yaml").open("a", encoding="utf-8") as file:
        file.write(BLOCK)

    # The stage runs under DVC, and is tracked like the others.
    assert ran(run(tmp_path, "dvc", "repro", "count@openspiel")) == ["count@openspiel"]
    assert len(json.loads((tmp_path / "data/openspiel/count/counts.json").read_text("utf-8"))) == 2
    assert json.loads((tmp_path / "data/openspiel/figures/count.json").read_text("utf-8"))["most"] > 1
    assert len((tmp_path / "data/openspiel/plots/count.jsonl").read_text("utf-8").splitlines()) == 2
    assert json.loads((tmp_path / "data/openspiel/runs/count.json").read_text("utf-8"))["run_id"]
