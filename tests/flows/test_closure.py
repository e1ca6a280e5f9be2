"""The import closure of a stage, on a small project in which every way to import occurs once."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from castaway.errors import CastawayError
from flows import closure

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
    "castaway/envs/__init__.py": "",
    "castaway/envs/registry.py": "from importlib import import_module",
    "castaway/envs/island/__init__.py": "",
    "castaway/envs/island/environment.py": "from ..cards import deal",
    "castaway/envs/island/maps/small.yaml": "width: 3",
    "castaway/envs/quiz/__init__.py": "",
    "castaway/envs/quiz/environment.py": "",
    "castaway/envs/cards.py": "",
    "stages/__init__.py": "",
    "stages/context.py": "",
    "stages/plain.py": """
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
""",
    "stages/play.py": "from castaway.envs import registry\nfrom castaway import models",
}
PIPELINE = """\
# The head is kept.
stages:
  plain:
    cmd: python -m flows plain  # and so is this
    outs:
      - data/plain
  play:
    foreach: ${tasks}
    do:
      cmd: python -m flows play@${key}
      deps:
        - castaway/gone.py
        - data/plain
      outs:
        - data/${key}/play
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in {**PROJECT, "dvc.yaml": PIPELINE}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    (tmp_path / "castaway/__pycache__").mkdir()
    (tmp_path / "castaway/__pycache__/chat.cpython-311.pyc").write_bytes(b"")
    return tmp_path


def test_imports_are_followed_wherever_they_stand(root: Path) -> None:
    assert closure.code_dependencies(root, "plain", per_task=False) == [
        "castaway/__init__.py",
        "castaway/chat.py",
        "castaway/errors.py",
        "castaway/late.py",
        "castaway/rl",
        "stages/__init__.py",
        "stages/context.py",
        "stages/plain.py",
    ]


def test_a_stage_of_a_task_depends_on_its_environment(root: Path) -> None:
    assert closure.code_dependencies(root, "play", per_task=True) == [
        "castaway/__init__.py",
        "castaway/envs/${key}",
        "castaway/envs/__init__.py",
        "castaway/envs/cards.py",
        "castaway/envs/registry.py",
        "castaway/models/__init__.py",
        "castaway/models/template.jinja",
        "castaway/models/tiny.py",
        "stages/__init__.py",
        "stages/play.py",
    ]


def test_a_stage_without_a_task_depends_on_every_environment(root: Path) -> None:
    assert "castaway/envs" in closure.code_dependencies(root, "play", per_task=False)


def test_data_files_count_with_their_package(root: Path) -> None:
    common, own = closure.closure(root, "play", ["island"])
    assert Path("castaway/models/template.jinja") in common
    assert own == {
        Path("castaway/envs/island/__init__.py"),
        Path("castaway/envs/island/environment.py"),
        Path("castaway/envs/island/maps/small.yaml"),
    }


def test_a_stage_without_a_file_is_told(root: Path) -> None:
    with pytest.raises(CastawayError, match=r"stages/sail\.py does not exist"):
        closure.closure(root, "sail", [])


def test_differences_are_told_and_written(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert closure.main(root, write=False) == 1
    told = capsys.readouterr().out
    assert "plain: + castaway/chat.py" in told
    assert "play: - castaway/gone.py" in told
    assert (root / "dvc.yaml").read_text(encoding="utf-8") == PIPELINE

    assert closure.main(root, write=True) == 0
    text = (root / "dvc.yaml").read_text(encoding="utf-8")
    stages = YAML(typ="safe").load(text)["stages"]
    assert stages["plain"]["deps"] == closure.code_dependencies(root, "plain", per_task=False)
    expected = closure.code_dependencies(root, "play", per_task=True)
    assert stages["play"]["do"]["deps"] == [*expected, "data/plain"]
    assert "# The head is kept." in text
    assert "# and so is this" in text
    capsys.readouterr()
    assert closure.main(root, write=False) == 0
    assert "dvc.yaml lists what is imported" in capsys.readouterr().out
