"""What is kept of the builds of profiles is what the documents say."""

import json
import shutil
from pathlib import Path

from benchmarks import profiles
from castaway.metrics.markdown import share
from tests.castaway.figures import save

RESULTS = profiles.ROOT / "docs" / "results.md"
KEPT = profiles.ROOT / "benchmarks" / "profiles"


def test_the_table_of_smollm2_has_the_kept_figures() -> None:
    kept = json.loads((KEPT / "smollm2-bfloat16.json").read_text("utf-8"))
    strictbot, openspiel = (kept[run]["evaluate"]["figures"] for run in ("strictbot", "openspiel"))
    text = RESULTS.read_text("utf-8")
    for player in ("base", "sft", "ppo", "final", "demonstrators", "expert", "random"):
        (row,) = [line for line in text.splitlines() if line.startswith(f"| {player} |") and line.count("|") == 5]
        first, *_, last = [cell.strip() for cell in row.strip("|").split("|")][1:]
        assert first == share(strictbot[player], "success_rate")
        assert last.startswith(share(openspiel[player], "success_rate"))


def test_boards_of_other_sizes_over_three_seeds() -> None:
    seeds = json.loads((KEPT / "sizes-seeds.json").read_text("utf-8"))["rows"]["as published"].values()
    text = RESULTS.read_text("utf-8")
    for player in ("final", "sft", "random"):
        figures = [one["policies"][player] for one in seeds]
        won = sum(one["unseen_success_rate"] * one["unseen_episodes"] for one in figures)
        assert f"{100 * won / sum(one['unseen_episodes'] for one in figures):.1f}" in text


def test_figures_are_kept_and_weights_are_not(tmp_path: Path) -> None:
    built = tmp_path / "scratch" / "small"
    for name, text in (("params.yaml", "seed: 1"), ("data/one/published/sft.json", '{"figures": {"loss": 1}}')):
        save(built / name, text)
    (built / "data/base").mkdir()
    (tmp_path / "benchmarks" / "profiles").mkdir(parents=True)
    shutil.copy(KEPT / "smollm2.json", tmp_path / "benchmarks" / "profiles" / "small.json")
    profiles.main("small", tmp_path)
    kept = json.loads((tmp_path / "benchmarks/profiles/small.json").read_text("utf-8"))
    assert kept["one"] == {"sft": {"figures": {"loss": 1}}} and "strictbot" in kept and "base" not in kept
    assert (tmp_path / "benchmarks/profiles/small.yaml").read_text("utf-8") == "seed: 1"
