"""What dvc.yaml, params.yaml, the stages and the code promise one another."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML

from castaway.tasks.registry import TASKS
from flows import closure
from flows.declared import Declared
from flows.hardware import KINDS

ROOT = Path(__file__).parents[2]
PARAMS: dict[str, Any] = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
RAW: dict[str, Any] = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
NAMES = ["base", "dataset", "sft", "reward_model", "ppo", "correction_sft", "evaluate", "merge"]
BASES = [f"base@{name}" for name in PARAMS["bases"]]
ADDRESSES = [*BASES, *(f"{name}@{task}" for name in NAMES[1:] for task in PARAMS["tasks"])]


@cache
def repository() -> Repo:
    return Repo(str(ROOT))


@cache
def stage(address: str) -> Any:
    return repository().stage.load_one(name=address)


def body(name: str) -> dict[str, Any]:
    definition: dict[str, Any] = RAW["stages"][name]
    return definition.get("do", definition)


def code(address: str) -> set[Path]:
    """The files that DVC hashes as code of a stage: folders are walked as DVC walks them."""
    found: set[Path] = set()
    for dependency in stage(address).deps:
        if dependency.def_path.startswith(closure.ROOTS) and dependency.fs.isdir(dependency.fs_path):
            walked = repository().dvcignore.find(dependency.fs, dependency.fs_path)
            found.update(Path(path).relative_to(ROOT) for path in walked)
        elif dependency.def_path.startswith(closure.ROOTS):
            found.add(Path(dependency.def_path))
    return found


def test_the_stages_are_those_of_the_design() -> None:
    assert list(RAW["stages"]) == NAMES
    assert sorted(one.addressing for one in repository().index.stages) == sorted(ADDRESSES)


@pytest.mark.parametrize("name", NAMES)
def test_a_command_names_its_own_stage(name: str) -> None:
    assert body(name)["cmd"] == f"python -m flows {name}@${{key}}"
    assert body(name)["desc"]
    source = (ROOT / "stages" / f"{name}.py").read_text(encoding="utf-8")
    assert "\ndef run(context: Context) -> dict[str, Any]:" in source


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_parameter_exists(address: str) -> None:
    names = [name for dependency in stage(address).deps for name in getattr(dependency, "params", None) or []]
    assert names
    for name in names:
        section: Any = PARAMS
        for part in name.split("."):
            assert part in section, f"{address} depends on {name}, which params.yaml does not have"
            section = section[part]


def test_every_parameter_is_used() -> None:
    used = {str(name).split(".")[0] for name in NAMES for name in body(name)["params"]}
    used |= {str(task) for task in PARAMS["tasks"]} if "${key}" in used else set()
    used |= {RAW["stages"][name]["foreach"].strip("${}") for name in NAMES}
    assert set(PARAMS) <= used


@pytest.mark.parametrize("address", ADDRESSES)
def test_code_dependencies_are_what_is_imported(address: str) -> None:
    name, _, task = address.partition("@")
    common, own = closure.closure(ROOT, name, closure.tasks(ROOT))
    if name != "base":
        own = frozenset(path for path in own if closure.ENVIRONMENTS / task in path.parents)
    assert code(address) == common | own, "run `python -m flows closure --write`"


@pytest.mark.parametrize("address", ADDRESSES)
def test_only_metrics_and_plots_stay_out_of_the_cache(address: str) -> None:
    declared = Declared(ROOT, address, stage(address))
    name, _, task = address.partition("@")
    assert f"data/{task}/{name}" in declared.outs
    for out in declared.stage.outs:
        assert out.use_cache == (not out.metric and not out.plot), f"DVC saves no run of a stage with {out}"
        assert not out.persist


@pytest.mark.parametrize("address", ADDRESSES)
def test_metrics_and_run_records_are_declared(address: str) -> None:
    name, _, task = address.partition("@")
    metrics = {out.def_path for out in stage(address).outs if out.metric}
    assert metrics == {f"data/{task}/metrics/{name}.json", f"data/{task}/runs/{name}.json"}


def test_run_records_are_no_dependency() -> None:
    paths = {dependency.def_path for address in ADDRESSES for dependency in stage(address).deps}
    assert not [path for path in paths if "/runs" in path or "/metrics" in path or "/plots" in path]


def test_outs_are_unique_and_apart() -> None:
    outs = [Path(out.def_path) for address in ADDRESSES for out in stage(address).outs]
    assert len(outs) == len(set(outs))
    assert not [(one, other) for one in outs for other in outs if one in other.parents]


@pytest.mark.parametrize("address", ADDRESSES)
def test_data_comes_from_other_stages(address: str) -> None:
    made = {out.def_path for other in ADDRESSES if other != address for out in stage(other).outs}
    read = {dep.def_path for dep in stage(address).deps if closure.is_data(dep.def_path)}
    assert read <= made


@pytest.mark.parametrize("name", NAMES)
def test_a_stage_is_pinned_and_bounded_in_time(name: str) -> None:
    meta = body(name)["meta"]
    assert meta["timeout_minutes"] > 0
    assert meta["device"] == ("cpu" if name in ("dataset", "merge") else "${device}")
    if meta["device"] == "${device}":
        assert {"seed", "device", "threads"} <= set(body(name)["params"])
    for address in ADDRESSES:
        assert stage(address).meta["device"] in KINDS


def test_plots_draw_what_is_declared() -> None:
    curves = {out.def_path for address in ADDRESSES for out in stage(address).outs if out.plot}
    drawn = {path for plot in RAW["plots"] for definition in plot.values() for path in definition["y"]}
    declared = {path for name in NAMES for out in body(name).get("plots", []) for path in out}
    assert drawn <= {path.replace("${key}", name) for path in declared for name in (*TASKS, *PARAMS["bases"])}
    assert all(Path(path).suffix == ".json" for path in curves), "DVC cannot draw any other file of these"
