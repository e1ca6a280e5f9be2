"""What is kept of a profile's run."""

from pathlib import Path

import pytest

from benchmarks.profiles import keep
from castaway.errors import CastawayError


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def test_figures_are_kept_and_weights_are_not(tmp_path: Path) -> None:
    built, kept = tmp_path / "scratch" / "small", tmp_path / "kept" / "small"
    write(kept / "data" / "one" / "metrics" / "gone.json", "{}")
    write(kept / "data" / "two" / "metrics" / "evaluate.json", "of another build")
    names = ["params.yaml", "data/one/metrics/evaluate.json", "data/one/runs/sft.json", "data/base/metrics/base.json"]
    for name in (*names, "data/one/merge/weights", "data/begun/metrics/sft.json"):
        write(built / name, name)
    keep(built, kept)
    found = {str(path.relative_to(kept)): path.read_text("utf-8") for path in kept.rglob("*") if path.is_file()}
    assert found == {**{name: name for name in names}, "data/two/metrics/evaluate.json": "of another build"}


def test_without_an_evaluation_nothing_is_deleted(tmp_path: Path) -> None:
    write(tmp_path / "kept" / "params.yaml", "kept")
    with pytest.raises(CastawayError, match="has no evaluation; build it with `python -m flows profile built`"):
        keep(tmp_path / "built", tmp_path / "kept")
    assert (tmp_path / "kept" / "params.yaml").read_text("utf-8") == "kept"
