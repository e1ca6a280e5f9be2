"""What dvc.yaml has to list, on a small project in which every way to import and to read a parameter occurs."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from castaway.config.bases import HubParams, PackageParams, PathParams
from castaway.config.params import STAGE_SECTIONS
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from flows import closure
from flows.imports import follow
from flows.reads import parameters

ROOT = Path(__file__).parents[2]
PARAMS = read_params(ROOT / "params.yaml")
TASKS = ["marooned", "openspiel", "strictbot"]
PROJECT = {
    "castaway/__init__.py": "",
    "castaway/py.typed": "",
    "castaway/errors.py": "",
    "castaway/chat.py": "import castaway.errors",
    "castaway/typing_only.py": "",
    "castaway/unused.py": "",
    "castaway/late.py": "",
    "castaway/rl/__init__.py": "",
    "castaway/rl/losses.py": "from . import masks",
    "castaway/rl/masks.py": "",
    "castaway/rl/README.md": "prose",
    "castaway/models/__init__.py": "from castaway.models.tiny import Tiny",
    "castaway/models/tiny.py": "",
    "castaway/models/template.jinja": "{{ text }}",
    "castaway/models/other.py": "",
    "castaway/tasks/__init__.py": "",
    "castaway/tasks/registry.py": "from importlib.metadata import entry_points",
    "castaway/tasks/cards.py": "",
    "castaway/tasks/checker.py": "",
    "castaway/envs/__init__.py": "",
    "castaway/envs/marooned/__init__.py": "",
    "castaway/envs/marooned/task.py": "from ...tasks.cards import deal",
    "castaway/envs/marooned/maps/small.yaml": "width: 3",
    "castaway/envs/openspiel/__init__.py": "",
    "castaway/envs/openspiel/task.py": "",
    "castaway/envs/strictbot/__init__.py": "",
    "castaway/envs/strictbot/task.py": "",
    "stages/__init__.py": "",
    "stages/context.py": "",
    "stages/base.py": """
from castaway.tasks.registry import load_task
def run(context):
    own = context.params.bases[context.base]
    return {"loss": context.log(context.params.base.epochs, own)}
""",
    "stages/sft.py": """
from __future__ import annotations
from typing import TYPE_CHECKING
import torch
from castaway import chat
from castaway.rl.losses import clip
from stages.context import Context
if TYPE_CHECKING:
    from castaway.typing_only import Nothing
def run(context):
    from castaway import late
    context.log(context.params.seed, context.params.sft.lora.rank)
""",
    "stages/evaluate.py": """
from castaway.tasks.registry import task_of
from castaway import models
def run(context):
    return task_of(context.params, context.run), context.params.evaluate, context.params.ppo.max_new_tokens
""",
}
PIPELINE = """\
# The head is kept.
stages:
  base:
    foreach: ${bases}
    do:
      cmd: python -m flows base@${key}
      outs:
        - data/${key}/base
  sft:
    foreach: ${tasks}
    do:
      desc: Demonstrations  # and so is this
      cmd: python -m flows sft@${key}
      deps:
        - castaway/gone.py
        - data/${item.base}/base
      params:
        - ppo
      meta: {device: cpu}
  evaluate:
    foreach: ${tasks}
    do:
      desc: Play
      cmd: python -m flows evaluate@${key}
      plots:
        - data/${key}/plots/evaluate.json:
            cache: false
plots:
  - loss:
      x: step
      y:
        data/games/plots/base.json: loss
        data/gone/plots/sft.json: [loss, accuracy]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in {**PROJECT, "dvc.yaml": PIPELINE}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    (tmp_path / "castaway/__pycache__").mkdir()
    (tmp_path / "castaway/__pycache__/chat.cpython-311.pyc").write_bytes(b"")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return tmp_path


# Code ----------------------------------------------------------------------------------------------------------------


def test_imports_are_followed_wherever_they_stand(root: Path) -> None:
    assert closure.code_dependencies(root, "sft", PARAMS) == [
        "castaway/__init__.py",
        "castaway/chat.py",
        "castaway/errors.py",
        "castaway/late.py",
        "castaway/rl",
        "stages/__init__.py",
        "stages/context.py",
        "stages/sft.py",
    ]


def test_a_stage_that_makes_its_task_depends_on_the_code_of_its_own_alone(root: Path) -> None:
    assert closure.code_dependencies(root, "evaluate", PARAMS) == [
        "${item.code}",
        "castaway/__init__.py",
        "castaway/envs/__init__.py",
        "castaway/models/__init__.py",
        "castaway/models/template.jinja",
        "castaway/models/tiny.py",
        "castaway/tasks/__init__.py",
        "castaway/tasks/cards.py",
        "castaway/tasks/registry.py",
        "stages/__init__.py",
        "stages/evaluate.py",
    ]


def test_what_the_tasks_in_use_import_counts_and_no_more(root: Path) -> None:
    files = closure.closure(root, "evaluate", TASKS)
    assert Path("castaway/tasks/cards.py") in files and Path("castaway/tasks/checker.py") not in files
    assert Path("castaway/tasks/cards.py") not in closure.closure(root, "evaluate", ["strictbot"])
    assert not [path for path in files if path.parts[:3] == ("castaway", "envs", "marooned")]


def test_data_files_count_with_their_package(root: Path) -> None:
    assert Path("castaway/models/template.jinja") in closure.closure(root, "evaluate", TASKS)
    # Those of a task's own package come with its folder.
    assert Path("castaway/envs/marooned/maps/small.yaml") not in closure.closure(root, "evaluate", TASKS)


def test_of_a_file_that_is_imported_the_packages_above_count(root: Path) -> None:
    assert follow(root, [Path("castaway/envs/marooned/task.py")]) == {
        Path("castaway/__init__.py"),
        Path("castaway/envs/__init__.py"),
        Path("castaway/envs/marooned/__init__.py"),
        Path("castaway/envs/marooned/task.py"),
        Path("castaway/tasks/__init__.py"),
        Path("castaway/tasks/cards.py"),
    }


def test_the_code_of_a_task_from_outside_is_followed_into_this_repository(
    root: Path, outside: Callable[[str], Path]
) -> None:
    package = outside("lights")
    (package / "task.py").write_text("from castaway.tasks import checker\n", encoding="utf-8")
    plugins = root / ".plugins"
    plugins.mkdir()
    (plugins / "lights").symlink_to(package)
    with_it = closure.closure(root, "evaluate", [*TASKS, "lights"])
    assert with_it - closure.closure(root, "evaluate", TASKS) == {Path("castaway/tasks/checker.py")}


# Parameters ----------------------------------------------------------------------------------------------------------


def reads(folder: Path, stage: str, body: str) -> list[str]:
    path = folder / f"{stage}.py"
    path.write_text(f"def run(context):\n    {body}\n", encoding="utf-8")
    return parameters(path, stage)


@pytest.mark.parametrize(
    ("stage", "body", "names"),
    [
        ("sft", "return context.params.seed", ["seed"]),
        ("sft", "return context.params.sft", ["sft"]),
        ("sft", "return context.params.sft, context.params.sft.epochs", ["sft"]),
        ("sft", "return context.params.ppo.lora.rank", ["ppo.lora"]),
        ("base", "return context.params.bases[context.base].attention", ["bases.${key}"]),
        ("merge", "return task_of(context.params, context.run)", ["tasks.${key}.game", "tasks.${key}.task"]),
        ("merge", "return context.params.tasks[context.run].game", ["tasks.${key}"]),
        ("merge", "return context.params.bases[context.base].origin", ["bases.${item.base}"]),
        ("merge", "return context.parameters.ppo, other.params.ppo, context.params_of.ppo", []),
        (
            "ppo",
            "return [context.params.teacher, context.params.ppo, context.params.threads, context.params.base.model,"
            " context.params.device, context.params.seed]",
            ["seed", "device", "threads", "ppo", "base.model", "teacher"],
        ),
    ],
)
def test_parameters_are_those_that_a_stage_reads(tmp_path: Path, stage: str, body: str, names: list[str]) -> None:
    assert reads(tmp_path, stage, body) == names


@pytest.mark.parametrize(
    "body", ["params = context.params", "return hand_on(context.params)", "return getattr(context.params, 'ppo')"]
)
def test_parameters_that_are_handed_on_as_a_whole_are_told(tmp_path: Path, body: str) -> None:
    with pytest.raises(CastawayError, match=r"sft\.py:2 passes context\.params on as a whole; name the section"):
        reads(tmp_path, "sft", body)


# The lists of a stage ------------------------------------------------------------------------------------------------


def test_a_stage_with_curves_has_them_twice(root: Path) -> None:
    lists = closure.stage_lists(root, "sft", PARAMS)
    assert lists["cmd"] == "python -m flows sft@${key} # sft: ${item.sft}"
    assert lists["params"] == ["seed", "sft.lora"]
    assert lists["outs"] == ["data/${key}/sft", "data/${key}/plots/sft.jsonl"]
    assert lists["metrics"] == [{f"data/${{key}}/{kind}/sft.json": {"cache": False}} for kind in ("metrics", "runs")]
    assert lists["plots"] == [{"data/${key}/plots/sft.json": {"cache": False}}]


def test_a_command_ends_with_all_that_a_run_may_set_differently(root: Path) -> None:
    lists = closure.stage_lists(root, "evaluate", PARAMS)
    assert lists["cmd"] == "python -m flows evaluate@${key} # evaluate: ${item.evaluate} ppo: ${item.ppo}"
    assert lists["params"] == ["evaluate", "ppo.max_new_tokens", "tasks.${key}.game", "tasks.${key}.task"]
    assert (lists["outs"], lists["plots"]) == (["data/${key}/evaluate"], [])
    assert closure.stage_lists(root, "base", PARAMS)["cmd"] == "python -m flows base@${key}"


def test_a_stage_without_a_file_is_told(root: Path) -> None:
    with pytest.raises(CastawayError, match=r"stages/sail\.py does not exist, though dvc\.yaml names the stage sail"):
        closure.stage_lists(root, "sail", PARAMS)


def test_every_run_and_base_model_has_its_code_and_empty_sections() -> None:
    runs, bases = closure.variables(PARAMS)
    assert list(runs["tasks"]) == list(PARAMS.tasks)
    for name, found in runs["tasks"].items():
        task = PARAMS.tasks[name].task
        assert found == {"code": f"castaway/envs/{task}", **{section: {} for section in STAGE_SECTIONS}}
    texts = {name: base.tasks for name, base in PARAMS.bases.items()}
    assert bases["bases"] == {
        name: {"code": "castaway/envs" if len(read) > 1 else f"castaway/envs/{read[0]}"} for name, read in texts.items()
    }


def test_a_base_model_from_elsewhere_depends_on_its_files_and_on_no_task() -> None:
    given = {
        "local": PathParams(path="models/qwen"),
        "hub": HubParams(hub="Qwen/Qwen3-8B", revision="0" * 40),
        "package": PackageParams(package="a==1", file="b.gguf", wheel_sha256="0" * 64, file_sha256="0" * 64),
    }
    _, bases = closure.variables(PARAMS.model_copy(update={"bases": given}))
    assert bases["bases"] == {
        "local": {"code": "models/qwen"},
        "hub": {"code": "castaway/config/bases.py"},
        "package": {"code": "castaway/config/bases.py"},
    }


def test_a_plot_draws_what_one_run_draws_of_all() -> None:
    curves = {"data/games/plots/base.json": "loss", "data/gone/plots/sft.json": ["loss", "accuracy"]}
    assert closure.drawn(curves, PARAMS) == {
        **{f"data/{name}/plots/base.json": "loss" for name in PARAMS.bases},
        **{f"data/{name}/plots/sft.json": ["loss", "accuracy"] for name in PARAMS.tasks},
    }


# The whole file ------------------------------------------------------------------------------------------------------


def test_differences_are_told_and_written(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert closure.main(root, write=False) == 1
    told = capsys.readouterr().out.splitlines()
    for line in (
        "vars: the values of each run and base model",
        "sft.deps: + castaway/chat.py",
        "sft.deps: - castaway/gone.py",
        "sft.params: + sft.lora",
        "sft.params: - ppo",
        "sft.cmd: python -m flows sft@${key} # sft: ${item.sft}",
        "base.outs: + data/${key}/plots/base.jsonl",
        "plots.loss: the curves of every run and base model",
    ):
        assert line in told
    assert not [line for line in told if line.startswith("base.cmd") or "data/${item.base}/base" in line]
    assert told[-1] == f"{len(told) - 1} places differ"
    assert (root / "dvc.yaml").read_text(encoding="utf-8") == PIPELINE

    assert closure.main(root, write=True) == 0
    text = (root / "dvc.yaml").read_text(encoding="utf-8")
    content = YAML(typ="safe").load(text)
    stages: dict[str, Any] = {name: block["do"] for name, block in content["stages"].items()}
    assert stages["sft"]["deps"] == [*closure.code_dependencies(root, "sft", PARAMS), "data/${item.base}/base"]
    assert {key: stages["sft"][key] for key in ("desc", "meta")} == {
        "desc": "Demonstrations",
        "meta": {"device": "cpu"},
    }
    assert list(stages["sft"]) == [name for name in closure.ORDER if name in stages["sft"]]
    assert "plots" not in stages["evaluate"], "it writes no curves"
    assert content["vars"] == closure.variables(PARAMS)
    assert content["plots"][0]["loss"]["y"] == closure.drawn(content["plots"][0]["loss"]["y"], PARAMS)
    assert "# The head is kept." in text
    assert "# and so is this" in text
    capsys.readouterr()
    assert closure.main(root, write=False) == 0
    assert capsys.readouterr().out == "dvc.yaml lists what is used\n"


def test_another_run_of_a_task_is_a_difference(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closure.main(root, write=True)
    path = root / "params.yaml"
    yaml = YAML()
    content = yaml.load(path.read_text("utf-8"))
    content["tasks"]["other"] = {**content["tasks"]["marooned"], "ppo": {"steps": 3}}
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(content, file)
    capsys.readouterr()
    assert closure.main(root, write=True) == 0
    told = capsys.readouterr().out
    assert told.splitlines() == [
        "vars: the values of each run and base model",
        "plots.loss: the curves of every run and base model",
        "2 places written",
    ]
    found = YAML(typ="safe").load((root / "dvc.yaml").read_text("utf-8"))
    assert found["vars"][0]["tasks"]["other"]["code"] == "castaway/envs/marooned"
    assert "data/other/plots/sft.json" in found["plots"][0]["loss"]["y"]


def test_a_stage_without_a_file_does_not_hide_the_others(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "stages/sft.py").unlink()
    assert closure.main(root, write=False) == 1
    told = capsys.readouterr().out
    assert "stages/sft.py does not exist" in told and "base.outs: + " in told
    assert closure.main(root, write=True) == 1
    assert closure.main(root, write=False) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("stages/sft.py does not exist"), "the others are written"


def test_a_folder_without_a_pipeline_is_told(root: Path) -> None:
    (root / "dvc.yaml").unlink()
    with pytest.raises(CastawayError, match=r"there is no dvc\.yaml in "):
        closure.main(root, write=False)
