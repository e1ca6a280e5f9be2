"""The package that `castaway task new` writes works as it is, and what cannot be written is told in one sentence."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.tasks.registry import task_names
from castaway.tools.check_task import check_task
from castaway.tools.plugins import write_package
from tests.shipped import ROOT


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


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    for name, sentence in (
        ("li-ghts", "expected lower-case letters, digits and underscores"),
        ("class", "a word of Python's own"),
        ("marooned", "there is a task marooned already"),
    ):
        with pytest.raises(CastawayError, match=sentence):
            write_package(name, tmp_path / "new")
        assert not (tmp_path / "new").exists()
    with pytest.raises(CastawayError, match="is there already; name another folder"):
        write_package("lights", tmp_path)


@pytest.mark.parametrize("name", task_names())
def test_the_shipped_tasks_lack_nothing(name: str, tmp_path: Path) -> None:
    used = ROOT / ("profiles/teacher.yaml" if name == "judge" else "params.yaml")
    shutil.copy(used, tmp_path / "params.yaml")
    assert list(check_task(name, tmp_path)) == []


def test_what_a_task_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(check_task("atlantis", ROOT)) == [
        "no installed package offers the task 'atlantis' (entry points of castaway.tasks); "
        f"expected one of {', '.join(task_names())}"
    ]
    folder = tmp_path / "castaway-lanterns"
    write_package("lanterns", folder)
    monkeypatch.syspath_prepend(str(folder))
    from castaway_lanterns.task import Lanterns  # type: ignore[import-not-found]

    classes = {"lanterns": Lanterns}
    monkeypatch.setattr("castaway.tools.check_task.task_class", lambda name: classes[name])
    (line,) = check_task("lanterns", ROOT)
    assert line.startswith("params.yaml has no run of the task lanterns")
    classes["lanterns"] = type("Nameless", (Lanterns,), {"name": "other"})
    told = next(check_task("lanterns", ROOT))
    assert told.startswith("Nameless.name is 'other', expected the name of its entry point")
