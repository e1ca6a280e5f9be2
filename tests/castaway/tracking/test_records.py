"""The peak of memory in a run record, the files of curves, and what is published."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.metrics.built import Built, built
from castaway.tracking.records import Curves, publish, recorded, write_json

MEASURE = "from castaway.tracking.records import peak_memory; print(peak_memory())"


@pytest.mark.parametrize(
    ("code", "least", "most"),
    [
        (f"import subprocess, sys; held = bytes(10**9); subprocess.run([sys.executable, '-c', {MEASURE!r}])", 0, 0.5),
        (f"held = b'x' * 10**9; del held; {MEASURE}", 0.9, 1.5),
    ],
    ids=["its own, and not its parent's", "what was given back"],
)
def test_the_peak_of_memory(code: str, least: float, most: float) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert least < float(done.stdout) < most


def test_the_first_row_of_a_list_has_every_name(tmp_path: Path) -> None:
    curves = Curves(tmp_path / "journal")
    curves.add(2, {"loss": 0.5, "sft_loss": 0.25})
    curves.add(1, {"loss": 1.0})
    for name in ("curves.json", "curves.jsonl"):
        curves.write(tmp_path / name)
    rows = [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5, "sft_loss": 0.25}]
    assert [json.loads(line) for line in (tmp_path / "curves.jsonl").read_text().splitlines()] == rows
    assert json.loads((tmp_path / "curves.json").read_text()) == [{**rows[0], "sft_loss": None}, rows[1]]
    assert list(json.loads((tmp_path / "curves.json").read_text())[0]) == ["step", "loss", "sft_loss"]


def test_a_curve_loses_no_nan_silently(tmp_path: Path) -> None:
    curves = Curves(tmp_path / "journal")
    with pytest.raises(CastawayError, match=r"^step 3: the curve entropy is nan, expected a finite number$"):
        curves.add(3, {"loss": 1.0, "entropy": float("nan")})


def test_a_line_that_was_cut_off_costs_no_later_one(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    Curves(journal).add(1, {"loss": 1.0})
    with journal.open("a", encoding="utf-8") as file:
        file.write('{"step": 2, "lo')
    Curves(journal).add(2, {"loss": 0.5})
    Curves(journal).write(tmp_path / "curves.jsonl")
    rows = [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5}]
    assert [json.loads(line) for line in (tmp_path / "curves.jsonl").read_text().splitlines()] == rows


def test_the_published_file_follows_what_dvc_restored(tmp_path: Path) -> None:
    figures, runs, published = (tmp_path / f"data/one/{kind}/sft.json" for kind in ("figures", "runs", "published"))
    publish(tmp_path, "one", "sft")
    assert not published.exists()
    write_json(figures, {"loss": 1.0})
    write_json(runs, {"stage_key": "a", "seconds": 3.0})
    publish(tmp_path, "one", "sft")
    written = published.stat().st_mtime_ns
    publish(tmp_path, "one", "sft")
    assert published.stat().st_mtime_ns == written
    write_json(figures, {"loss": 2.0})
    publish(tmp_path, "one", "sft")
    runs.unlink()
    figures.unlink()
    assert built(tmp_path, "one", "sft") == Built({"loss": 2.0}, {"stage_key": "a", "seconds": 3.0})
    assert recorded(tmp_path, ["sft@one"], "seconds") == {"sft@one": 3.0}
