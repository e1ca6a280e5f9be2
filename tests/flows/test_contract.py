"""What dvc.yaml, params.yaml, the stages and the code promise one another."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML

from castaway.config.params import STAGE_SECTIONS
from castaway.tasks.registry import read_params
from castaway.tools.dotted import flatten
from castaway.tools.hardware import KINDS
from flows import closure
from flows.declared import Declared
from flows.imports import ROOTS, sources
from flows.plugins import task_code, tasks_in_use
from tests.miniature import looked_at

ROOT = Path(__file__).parents[2]
PARAMS: dict[str, Any] = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
CHECKED = read_params(ROOT / "params.yaml")
RAW: dict[str, Any] = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
NAMES = ["base", "dataset", "sft", "reward_model", "ppo", "correction_sft", "evaluate", "merge"]
CODE = (*ROOTS, ".plugins")
BASES = [f"base@{name}" for name in PARAMS["bases"]]
ADDRESSES = [*BASES, *(f"{name}@{task}" for name in NAMES[1:] for task in PARAMS["tasks"])]


@cache
def repository() -> Repo:
    return Repo(str(ROOT))


@cache
def stage(address: str) -> Any:
    return repository().stage.load_one(name=address)


def params_of(address: str) -> list[str]:
    return [name for dependency in stage(address).deps for name in getattr(dependency, "params", None) or []]


def body(name: str) -> dict[str, Any]:
    definition: dict[str, Any] = RAW["stages"][name]
    return definition.get("do", definition)


def code(address: str) -> set[Path]:
    """The files that DVC hashes as code of a stage: folders are walked as DVC walks them."""
    found: set[Path] = set()
    for dependency in stage(address).deps:
        if dependency.def_path.startswith(CODE) and dependency.fs.isdir(dependency.fs_path):
            walked = repository().dvcignore.find(dependency.fs, dependency.fs_path)
            found.update(Path(path).relative_to(ROOT) for path in walked)
        elif dependency.def_path.startswith(CODE):
            found.add(Path(dependency.def_path))
    return found


def test_the_stages_are_those_of_the_design() -> None:
    assert list(RAW["stages"]) == NAMES
    assert sorted(one.addressing for one in repository().index.stages) == sorted(ADDRESSES)


@pytest.mark.parametrize("name", NAMES)
def test_a_command_names_its_own_stage(name: str) -> None:
    command, _, differently = body(name)["cmd"].partition(" # ")
    assert command == f"python -m flows {name}@${{key}}"
    # DVC compares commands: what a run sets differently makes its stage stale.
    sections = {str(key).partition(".")[0] for key in body(name)["params"]} & set(STAGE_SECTIONS)
    assert sorted(differently.split()) == sorted(
        word for section in sections for word in (f"{section}:", f"${{item.{section}}}")
    )
    assert body(name)["desc"]
    source = (ROOT / "stages" / f"{name}.py").read_text(encoding="utf-8")
    assert "\ndef run(context: Context) -> dict[str, Any]:" in source


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_parameter_exists(address: str) -> None:
    names = params_of(address)
    assert names
    for name in names:
        section: Any = PARAMS
        for part in name.split("."):
            assert part in section, f"{address} depends on {name}, which params.yaml does not have"
            section = section[part]


def test_every_parameter_is_used() -> None:
    """Of a section that a stage names in part, the other keys have to be read elsewhere."""
    used = {name for address in ADDRESSES for name in params_of(address)}

    def is_used(key: str) -> bool:
        return any(name == key or key.startswith(f"{name}.") for name in used)

    # Where a stage runs decides nothing: `device` stands in `meta` alone.
    keys = [*flatten({name: value for name, value in PARAMS.items() if name not in ("tasks", "device")})]
    keys += [f"tasks.{run}.{key}" for run, block in PARAMS["tasks"].items() for key in flatten({"game": block["game"]})]
    assert [key for key in keys if not is_used(key)] == []
    # What a run sets differently stands in the command of every stage that reads the section.
    for run, block in PARAMS["tasks"].items():
        assert is_used(f"tasks.{run}.task")
        # The gate decides which model is the champion, and changes no result.
        for section in set(block) - {"task", "base", "game", "gate"}:
            commands = [stage(f"{name}@{run}").cmd for name in NAMES[1:]]
            assert any(f"{section}: " in command.partition(" # ")[2] for command in commands), f"{run}.{section}"


def test_a_command_shows_what_its_run_sets_differently() -> None:
    for run in PARAMS["tasks"]:
        for name in NAMES[1:]:
            for word in stage(f"{name}@{run}").cmd.partition(" # ")[2].split():
                assert "${" not in word
    shown = {run: stage(f"ppo@{run}").cmd for run in PARAMS["tasks"]}
    for run, block in PARAMS["tasks"].items():
        for key, value in flatten(block.get("ppo", {})).items():
            assert key in shown[run] and (value is None or str(value) in shown[run])


@pytest.mark.parametrize("name", NAMES)
def test_the_lists_are_those_of_the_code(name: str) -> None:
    wanted = closure.stage_lists(ROOT, name, CHECKED)
    wanted["deps"] += [path for path in body(name)["deps"] if closure.is_data(path)]
    assert {key: body(name).get(key, []) for key in wanted} == wanted, "run `python -m flows closure --write`"


def test_what_runs_and_base_models_have_of_their_own_is_up_to_date() -> None:
    assert RAW["vars"] == closure.variables(CHECKED), "run `python -m flows closure --write`"


def test_a_stage_has_its_data_from_the_base_model_of_its_run() -> None:
    for run, block in PARAMS["tasks"].items():
        for name in NAMES[1:]:
            data = {dep.def_path for dep in stage(f"{name}@{run}").deps if closure.is_data(dep.def_path)}
            assert f"data/{block['base']}/base" in data
            assert {path.split("/")[1] for path in data} <= {run, block["base"]}


@pytest.mark.parametrize("address", ADDRESSES)
def test_code_dependencies_are_what_is_imported(address: str) -> None:
    name, _, run = address.partition("@")
    common = closure.closure(ROOT, name, tasks_in_use(CHECKED))
    own: set[Path] = set()
    if closure.REGISTRY in common:
        place = closure.made_from(CHECKED.bases[run]) if name == "base" else task_code(CHECKED.tasks[run].task).path
        own = set(sources(ROOT, Path(place)))
    assert code(address) == common | own, "run `python -m flows closure --write`"


def test_what_people_look_at_is_no_dependency() -> None:
    """No stage is built again for a changed word in the command, in a table or in a page."""
    shown = looked_at(ROOT)
    assert len(shown) > 20
    for address in ADDRESSES:
        assert not code(address) & shown, address


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
    found = {dependency.def_path for address in ADDRESSES for dependency in stage(address).deps}
    paths = [path for path in found if closure.is_data(path)]
    assert paths and not [path for path in paths if "/runs" in path or "/metrics" in path or "/plots" in path]


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
    assert meta.get("cpu_processes", 1) == (2 if name == "evaluate" else 1)
    assert meta["device"] == ("cpu" if name in ("dataset", "merge") else "${device}")
    if meta["device"] == "${device}":
        assert {"seed", "threads"} <= set(body(name)["params"])
    assert "device" not in body(name)["params"]
    for address in ADDRESSES:
        assert stage(address).meta["device"] in KINDS


def test_plots_draw_what_is_declared() -> None:
    curves = {out.def_path for address in ADDRESSES for out in stage(address).outs if out.plot}
    for plot in RAW["plots"]:
        for definition in plot.values():
            assert set(definition["y"]) <= curves
            assert definition["y"] == closure.drawn(definition["y"], CHECKED), "run `python -m flows closure --write`"
    assert all(Path(path).suffix == ".json" for path in curves), "DVC cannot draw any other file of these"
