"""What an experiment sets is what its run is built with."""

import shutil
import subprocess
from collections.abc import Mapping
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest

from benchmarks import ablation
from benchmarks.rows import add_row
from castaway.errors import CastawayError
from castaway.tasks.registry import read_params
from tests.miniature import ROOT, edited, make_clone


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_clone(tmp_path)
    monkeypatch.setattr(ablation, "ROOT", tmp_path)
    return tmp_path


def test_a_key_that_the_run_sets_itself_is_changed_where_it_stands(root: Path) -> None:
    with edited(root / "params.yaml") as params:
        params["tasks"]["openspiel"]["ppo"] = {"replay": {"share": 0.5, "capacity": 9, "mastery": 1}}
        params["tasks"]["openspiel"]["evaluate"] = {"episodes": 1008}
    assert ablation.settings("openspiel", "without replay", 50) == {
        "tasks.openspiel.ppo.replay.share": 0.0,
        "tasks.openspiel.evaluate.episodes": 50,
        "evaluate.further_episodes": ablation.FURTHER_EPISODES,
        "evaluate.best_of": 1,
    }
    assert "ppo.gamma_turn" in ablation.settings("marooned", "per-turn bandit", 50)
    assert ablation.settings("openspiel", ablation.AS_SHIPPED, 50, block=7)["evaluate.block"] == 7


@pytest.mark.parametrize("task", ablation.VARIANTS)
def test_the_parameters_of_every_variant_are_valid(root: Path, task: str) -> None:
    written = (root / "params.yaml").read_text("utf-8")
    for variant in ablation.VARIANTS[task]:
        set_dotted(root / "params.yaml", ablation.settings(task, variant, 50))
        assert read_params(root / "params.yaml").for_run(task).evaluate.episodes == 50
        (root / "params.yaml").write_text(written, "utf-8")


@pytest.mark.parametrize("task", ablation.VARIANTS)
def test_every_variant_changes_something_of_the_shipped_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    path = tmp_path / "params.yaml"
    shutil.copy(ROOT / "params.yaml", path)
    monkeypatch.setattr(ablation, "ROOT", tmp_path)
    written, shipped = path.read_text("utf-8"), read_params(path).for_run(task).ppo
    for variant in ablation.VARIANTS[task]:
        set_dotted(path, ablation.settings(task, variant, 50))
        assert (read_params(path).for_run(task).ppo == shipped) == (variant == ablation.AS_SHIPPED), variant
        path.write_text(written, "utf-8")


def test_variants_are_built_by_name() -> None:
    assert ablation.variants_of("marooned", None) == list(ablation.VARIANTS["marooned"])
    assert ablation.variants_of("marooned", ["estimator rloo"]) == ["estimator rloo"]
    with pytest.raises(CastawayError, match="marooned has no variant without replay; it has as shipped"):
        ablation.variants_of("marooned", ["without replay"])


def test_what_is_not_the_same_experiment_has_another_name() -> None:
    def name(task: str, seed: int, **changes: float) -> str:
        return ablation.experiment_name(task, ablation.AS_SHIPPED, seed, "abc1234", changes)

    one = name("marooned", 1, episodes=200)
    assert one == name("marooned", 1, episodes=200)
    others = [name("openspiel", 1, episodes=200), name("marooned", 2, episodes=200), name("marooned", 1, episodes=50)]
    assert len({one, *others}) == 4
    assert subprocess.run(["git", "check-ref-format", f"refs/exps/{one}"]).returncode == 0


def test_figures_are_kept_in_the_order_of_the_variants(tmp_path: Path) -> None:
    path, order = tmp_path / "data/openspiel/metrics/ablation.json", list(ablation.VARIANTS["openspiel"])
    for variant, seed in (("without replay", 2), (ablation.AS_SHIPPED, 1), ("without replay", 1)):
        add_row(path, variant, seed, {"success_rate": seed / 4}, order)
    text = path.read_text("utf-8")
    assert text.index(ablation.AS_SHIPPED) < text.index("without replay")
    assert '"2": {' in text and '"1": {' in text


def set_dotted(path: Path, values: Mapping[str, object]) -> None:
    """Set keys of params.yaml."""
    with edited(path) as params:
        for key, value in values.items():
            *sections, last = key.split(".")
            reduce(getitem, sections, params)[last] = value
