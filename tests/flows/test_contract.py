"""What dvc.yaml, params.yaml, the stages and the code promise one another."""

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML

from castaway.config.params import STAGE_SECTIONS
from castaway.config.yaml_file import flatten
from castaway.processes.hardware import KINDS
from castaway.tasks.registry import read_params
from castaway.tracking.dvc_stage import DvcStage
from tests.miniature import edited

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


def params_of(address: str) -> list[str]:
    return [name for dependency in stage(address).deps for name in getattr(dependency, "params", None) or []]


def body(name: str) -> dict[str, Any]:
    definition: dict[str, Any] = RAW["stages"][name]
    return definition.get("do", definition)


def is_data(path: str) -> bool:
    return path.startswith("data/")


def test_the_stages_are_those_of_the_design() -> None:
    assert list(RAW["stages"]) == NAMES
    assert sorted(one.addressing for one in repository().index.stages) == sorted(ADDRESSES)


def test_every_parameter_is_used() -> None:
    """Of a section that a stage names in part, the other keys have to be read elsewhere."""
    used = {name for address in ADDRESSES for name in params_of(address)}

    def is_used(key: str) -> bool:
        return any(name == key or key.startswith(f"{name}.") for name in used)

    # Where a stage runs decides nothing: `device` stands in `meta` alone.
    keys = [*flatten({name: value for name, value in PARAMS.items() if name not in ("tasks", "device")})]
    keys += [f"tasks.{run}.{key}" for run, block in PARAMS["tasks"].items() for key in flatten({"game": block["game"]})]
    assert [key for key in keys if not is_used(key)] == []
    for run, block in PARAMS["tasks"].items():
        assert is_used(f"tasks.{run}.task")
        assert all(is_used(f"tasks.{run}.{section}") for section in STAGE_SECTIONS)
        # The gate decides which model is the champion, and changes no result.
        assert set(block) - {"task", "base", "code", "game", "gate"} == set(STAGE_SECTIONS)


def test_a_stage_has_its_data_from_the_base_model_of_its_run() -> None:
    for run, block in PARAMS["tasks"].items():
        for name in NAMES[1:]:
            data = {dep.def_path for dep in stage(f"{name}@{run}").deps if is_data(dep.def_path)}
            assert f"data/{block['base']}/base" in data
            assert {path.split("/")[1] for path in data} <= {run, block["base"]}


@pytest.mark.parametrize("address", ADDRESSES)
def test_only_metrics_and_plots_stay_out_of_the_cache(address: str) -> None:
    declared = DvcStage(ROOT, address, stage(address))
    name, _, task = address.partition("@")
    assert {f"data/{task}/{name}", f"data/{task}/figures/{name}.json", f"data/{task}/runs/{name}.json"} <= {
        *declared.outs
    }
    for out in declared.stage.outs:
        assert out.use_cache == (not out.metric and not out.plot), f"DVC saves no run of a stage with {out}"
        assert not out.persist
    assert [out.def_path for out in declared.stage.outs if out.metric] == [f"data/{task}/metrics/{name}.json"]
    assert declared.stage.meta["device"] in KINDS
    # What another stage says of itself is no dependency.
    read = [Path(dep.def_path).parts for dep in declared.stage.deps if is_data(dep.def_path)]
    assert not [parts for parts in read if parts[2] in ("runs", "figures", "metrics", "plots")]


@pytest.mark.parametrize("name", NAMES)
def test_a_stage_that_logs_has_its_curves_twice(name: str) -> None:
    # A search in the text is enough: a stage that writes curves names `context.log` somewhere.
    curves = "context.log" in (ROOT / "stages" / f"{name}.py").read_text("utf-8")
    assert (f"data/${{key}}/plots/{name}.jsonl" in body(name)["outs"]) is curves
    drawn = [path for plot in body(name).get("plots", []) for path in plot]
    assert drawn == [f"data/${{key}}/plots/{name}.json"] * curves


@pytest.mark.parametrize("name", NAMES)
def test_a_stage_is_pinned_and_bounded_in_time(name: str) -> None:
    meta = body(name)["meta"]
    assert meta["timeout_minutes"] > 0
    assert meta.get("cpu_processes", 1) == (2 if name == "evaluate" else 1)
    assert meta["device"] == ("cpu" if name == "dataset" else "${device}")
    if meta["device"] == "${device}":
        assert {"seed", "threads"} <= set(body(name)["params"])
    assert "device" not in body(name)["params"]


def test_a_run_that_begins_with_what_another_has_trained_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/change.md shows it: the other run's model is the base model, and SFT is left out."""
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    with edited(tmp_path / "params.yaml") as params:
        merged, common = "data/strictbot/merge", {"gradient_checkpointing": False, "instructions": "avx2"}
        params["bases"]["tutor"] = {"path": merged, "code": merged, "dtype": "float32", **common}
        params["tasks"]["longer"] = {**params["tasks"]["strictbot"], "base": "tutor", "sft": {"epochs": 0}}
    assert read_params(tmp_path / "params.yaml").for_run("longer").sft.epochs == 0
    monkeypatch.chdir(tmp_path)
    Repo.init(no_scm=True).close()
    with Repo() as repo:
        before = {one.addressing for one in nx.descendants(repo.index.graph, repo.stage.load_one(name="ppo@longer"))}
    assert {"base@tutor", "merge@strictbot", "ppo@strictbot", "base@answers"} <= before
