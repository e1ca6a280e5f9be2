"""dvc.yaml lists what each stage imports and reads, and no more.

What computes nothing need not be listed: packages' empty `__init__.py`, errors, the types of parameters, whose values
DVC compares in params.yaml, and the trial of a fetched model, which only refuses. `stages/context.py` is imported for
annotations alone; the driver makes contexts.
"""

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from castaway.config.params import STAGE_SECTIONS
from tests.imports import follow, parameters, with_data
from tests.shipped import PARAMS, ROOT

TEXT = (ROOT / "dvc.yaml").read_text("utf-8")
STAGES: dict[str, Any] = {name: block["do"] for name, block in YAML(typ="safe").load(TEXT)["stages"].items()}
REGISTRY = Path("castaway/tasks/registry.py")
TRIAL = Path("castaway/tools/check_model.py")
CODE = "${item.code}"
MOST_LINES, MOST_DEPENDENCIES = 330, 12


def computes(path: Path) -> bool:
    if path == Path("castaway/errors.py") or path.is_relative_to("castaway/config"):
        return False
    body = ast.parse((ROOT / path).read_text("utf-8")).body if path.name == "__init__.py" else [ast.Pass()]
    return any(not isinstance(node, ast.Expr) for node in body)


def listed(stage: str) -> list[str]:
    return [one for one in STAGES[stage]["deps"] if not one.startswith("data/")]


@cache
def used(stage: str) -> set[Path]:
    """The files that compute in a stage, those of tasks with what they import apart from their own code."""
    start = [Path("stages") / f"{stage}.py"]
    files = follow(ROOT, start, TRIAL)
    if REGISTRY in files:
        tasks = [path.relative_to(ROOT) for run in PARAMS.tasks.values() for path in (ROOT / run.code).rglob("*.py")]
        files = follow(ROOT, [*start, *tasks], TRIAL)
    own = {run.code for run in PARAMS.tasks.values()}
    files = {path for path in files if not any(path.is_relative_to(code) for code in own)}
    return {path for path in with_data(ROOT, files) if computes(path)}


@pytest.mark.parametrize("stage", STAGES)
def test_all_that_computes_is_listed_and_what_is_listed_is_needed(stage: str) -> None:
    missing = [path for path in used(stage) if not any(path.is_relative_to(one) for one in listed(stage))]
    assert not missing, f"add them, or their folders, to the deps of {stage} in dvc.yaml"
    makes_task = REGISTRY in follow(ROOT, [Path("stages") / f"{stage}.py"], TRIAL)
    assert (CODE in listed(stage)) is makes_task
    for one in listed(stage):
        needed = [path for path in used(stage) if path.is_relative_to(one)]
        # Of a folder of which a stage needs one file, it lists the file.
        assert one == CODE or len(needed) > (ROOT / one).is_dir(), f"{stage} does not need {one}"


@pytest.mark.parametrize("stage", STAGES)
def test_the_parameters_are_those_that_are_read(stage: str) -> None:
    read = parameters(ROOT / "stages" / f"{stage}.py", stage)
    sections = {name.partition(".")[0] for name in read} & set(STAGE_SECTIONS)
    assert set(STAGES[stage]["params"]) == read | {f"tasks.${{key}}.{section}" for section in sections}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_can_be_read_at_a_glance(stage: str) -> None:
    assert len(STAGES[stage]["deps"]) <= MOST_DEPENDENCIES
    assert STAGES[stage]["cmd"] == f"python -m flows {stage}@${{key}}"
    assert len(TEXT.splitlines()) <= MOST_LINES
