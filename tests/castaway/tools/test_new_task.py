"""The package that `castaway task new` writes works as it is, and what cannot be written is told in one sentence."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from castaway.errors import CastawayError
from castaway.tasks import registry
from castaway.tools.check_task import findings
from castaway.tools.new_task import write_package

ROOT = Path(__file__).parents[3]


def test_the_package_passes_its_own_tests(tmp_path: Path) -> None:
    folder = tmp_path / "castaway-night-lights"
    assert "pip install" in write_package("night_lights", folder)
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["castaway.tasks"] == {"night_lights": "castaway_night_lights.task:NightLights"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": f"{ROOT}:{folder}"}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["Lights", "1lights", "li-ghts", "class", ""])
def test_a_name_that_cannot_be_a_module_is_refused(name: str, tmp_path: Path) -> None:
    sentence = "a word of Python's own" if name == "class" else "expected lower-case letters, digits and underscores"
    with pytest.raises(CastawayError, match=sentence):
        write_package(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_is_written_over(tmp_path: Path) -> None:
    with pytest.raises(CastawayError, match="is there already; name another folder"):
        write_package("lights", tmp_path)
    with pytest.raises(CastawayError, match="there is a task marooned already"):
        write_package("marooned", tmp_path / "new")


@pytest.mark.parametrize("name", registry.task_names())
def test_the_shipped_tasks_lack_nothing(name: str) -> None:
    assert list(findings(name, ROOT)) == []


def test_what_a_task_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(findings("atlantis", ROOT)) == [
        "no installed package offers the task 'atlantis' (entry points of castaway.tasks); "
        f"there are {', '.join(registry.task_names())}"
    ]
    folder = tmp_path / "castaway-lanterns"
    write_package("lanterns", folder)
    monkeypatch.syspath_prepend(str(folder))
    from castaway_lanterns.task import Lanterns  # type: ignore[import-not-found]

    classes = {"lanterns": Lanterns}
    monkeypatch.setattr("castaway.tools.check_task.task_class", lambda name: classes[name])
    (found,) = findings("lanterns", ROOT)
    assert found.startswith("params.yaml has no run of the task lanterns")
    classes["lanterns"] = type("Nameless", (Lanterns,), {"name": "other"})
    assert next(findings("lanterns", ROOT)).startswith("Nameless.name is 'other', expected the name of its entry point")
