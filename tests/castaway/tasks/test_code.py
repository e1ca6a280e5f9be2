"""Where the code of a task is, and the link to a package that is installed elsewhere."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.config.params import Params
from castaway.tasks.registry import code_of, task_code
from castaway.tools.plugins import link, tasks_in_use
from tests.shipped import PARAMS


def test_a_task_is_a_folder_of_this_repository_or_a_link_to_a_package_or_a_module(
    outside: Callable[[str], Path],
) -> None:
    code = task_code("marooned")
    assert (code.path, code.target) == (Path("castaway/envs/marooned"), None)
    assert code.distribution == "castaway" and code.version
    package, module = outside("lights"), outside("lamp.py")
    code = task_code("lights")
    assert (code.path, code.target) == (Path(".plugins/lights"), package.resolve())
    assert (code.distribution, code.version) == ("unknown", "unknown")
    code = task_code("lamp")
    assert (code.path, code.target) == (Path(".plugins/lamp.py"), module.resolve())
    shutil.rmtree(package)
    with pytest.raises(CastawayError, match=r"the package castaway_lights, which offers the task 'lights', cannot be"):
        task_code("lights")


def test_the_tasks_in_use_are_those_of_runs_and_of_base_models() -> None:
    assert tasks_in_use(PARAMS) == ["marooned", "openspiel", "strictbot"]
    one = PARAMS.model_copy(update={"tasks": {"a": PARAMS.tasks["marooned"]}, "bases": {"b": PARAMS.bases["answers"]}})
    assert tasks_in_use(one) == ["marooned", "strictbot"]


def using(*tasks: str) -> Params:
    """Parameters with a run of each of the tasks."""
    run = PARAMS.tasks["marooned"]
    return PARAMS.model_copy(update={"tasks": {task: run.model_copy(update={"task": task}) for task in tasks}})


def test_links_are_made_and_mended(tmp_path: Path, outside: Callable[[str], Path]) -> None:
    package, place = outside("lights"), tmp_path / "root" / ".plugins" / "lights"
    (tmp_path / "root").mkdir()
    link(tmp_path / "root", using("marooned", "lights"))
    assert place.resolve() == package.resolve()
    assert sorted(path.name for path in place.parent.iterdir()) == ["lights"]
    place.unlink()
    place.symlink_to(tmp_path / "an older place")
    for _ in range(2):
        link(tmp_path / "root", using("lights"))
        assert place.resolve() == package.resolve()
    # What is no link is left alone.
    place.unlink()
    place.mkdir()
    with pytest.raises(CastawayError, match=r"\.plugins/lights is not a link, expected one to the package of the task"):
        link(tmp_path / "root", using("lights"))


def test_a_base_model_depends_on_one_path(outside: Callable[[str], Path]) -> None:
    outside("lights")
    assert code_of(["marooned"]) == "castaway/envs/marooned"
    assert code_of(["marooned", "openspiel"]) == "castaway/envs"
    assert code_of(["lights"]) == ".plugins/lights"
    with pytest.raises(
        CastawayError, match=r"text of \.plugins/lights, castaway/envs/marooned, expected tasks of this"
    ):
        code_of(["lights", "marooned"])
