"""Where the code of a task is, and the link to a package that is installed elsewhere."""

from collections.abc import Callable
from pathlib import Path

import pytest

from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from flows import plugins
from flows.plugins import code_of_base, link, task_code, tasks_in_use

PARAMS = read_params(Path(__file__).parents[2] / "params.yaml")


def test_a_task_of_this_repository_is_a_folder_in_it() -> None:
    code = task_code("marooned")
    assert (code.path, code.target) == (Path("castaway/envs/marooned"), None)
    assert code.distribution == "castaway" and code.version


def test_a_package_from_outside_is_a_link(outside: Callable[[str], Path]) -> None:
    package = outside("lights")
    code = task_code("lights")
    assert (code.path, code.target) == (Path(".plugins/lights"), package.resolve())
    assert (code.distribution, code.version) == ("unknown", "unknown")


def test_a_single_module_from_outside_is_a_link_to_a_file(outside: Callable[[str], Path]) -> None:
    module = outside("lamp.py")
    code = task_code("lamp")
    assert (code.path, code.target) == (Path(".plugins/lamp.py"), module.resolve())


def test_a_package_that_is_gone_is_told(outside: Callable[[str], Path]) -> None:
    package = outside("lights")
    for file in package.iterdir():
        file.unlink()
    package.rmdir()
    with pytest.raises(CastawayError, match=r"the package castaway_lights, which offers the task 'lights', cannot be"):
        task_code("lights")


def test_the_tasks_in_use_are_those_of_runs_and_of_base_models() -> None:
    assert tasks_in_use(PARAMS) == ["marooned", "openspiel", "strictbot"]
    one = PARAMS.model_copy(update={"tasks": {"a": PARAMS.tasks["marooned"]}, "bases": {"b": PARAMS.bases["answers"]}})
    assert tasks_in_use(one) == ["marooned", "strictbot"]


def test_links_are_made_and_mended(tmp_path: Path, outside: Callable[[str], Path]) -> None:
    package, place = outside("lights"), tmp_path / "root" / ".plugins" / "lights"
    (tmp_path / "root").mkdir()
    link(tmp_path / "root", ["marooned", "lights"])
    assert place.resolve() == package.resolve()
    assert sorted(path.name for path in place.parent.iterdir()) == ["lights"]
    place.unlink()
    place.symlink_to(tmp_path / "an older place")
    link(tmp_path / "root", ["lights"])
    link(tmp_path / "root", ["lights"])
    assert place.resolve() == package.resolve()


def test_what_is_no_link_is_left_alone(tmp_path: Path, outside: Callable[[str], Path]) -> None:
    outside("lights")
    (tmp_path / "root" / ".plugins" / "lights").mkdir(parents=True)
    with pytest.raises(CastawayError, match=r"\.plugins/lights is not a link, expected one to the package of the task"):
        link(tmp_path / "root", ["lights"])


def test_a_base_model_depends_on_one_path(outside: Callable[[str], Path]) -> None:
    outside("lights")
    assert code_of_base(["marooned"]) == Path("castaway/envs/marooned")
    assert code_of_base(["marooned", "openspiel"]) == plugins.SHIPPED
    assert code_of_base(["lights"]) == Path(".plugins/lights")
    with pytest.raises(
        CastawayError, match=r"text of \.plugins/lights, castaway/envs/marooned, expected tasks of this"
    ):
        code_of_base(["lights", "marooned"])
