"""The peak of memory in a run record, and the files of curves."""

import json
import subprocess
import sys
from pathlib import Path

from flows.records import Curves

MEASURE = "from flows.records import peak_memory; print(peak_memory())"


def test_the_peak_is_this_process_s_own_and_not_its_parent_s() -> None:
    large = f"import subprocess, sys; held = bytes(10**9); subprocess.run([sys.executable, '-c', {MEASURE!r}])"
    found = subprocess.run([sys.executable, "-c", large], capture_output=True, text=True, check=True, timeout=60)
    assert 0 < float(found.stdout) < 0.5


def test_what_was_given_back_counts() -> None:
    code = f"held = b'x' * 10**9; del held; {MEASURE}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert 0.9 < float(found.stdout) < 1.5


def test_the_first_row_of_a_list_has_every_name(tmp_path: Path) -> None:
    curves = Curves(tmp_path / "journal")
    curves.add(2, {"loss": 0.5, "sft_loss": 0.25})
    curves.add(1, {"loss": 1.0, "entropy": float("nan")})
    for name in ("curves.json", "curves.jsonl"):
        curves.write(tmp_path / name)
    rows = [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5, "sft_loss": 0.25}]
    assert [json.loads(line) for line in (tmp_path / "curves.jsonl").read_text().splitlines()] == rows
    assert json.loads((tmp_path / "curves.json").read_text()) == [{**rows[0], "sft_loss": None}, rows[1]]
    assert list(json.loads((tmp_path / "curves.json").read_text())[0]) == ["step", "loss", "sft_loss"]


def test_a_line_that_was_cut_off_costs_no_later_one(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    Curves(journal).add(1, {"loss": 1.0})
    with journal.open("a", encoding="utf-8") as file:
        file.write('{"step": 2, "lo')
    Curves(journal).add(2, {"loss": 0.5})
    Curves(journal).write(tmp_path / "curves.jsonl")
    rows = [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5}]
    assert [json.loads(line) for line in (tmp_path / "curves.jsonl").read_text().splitlines()] == rows
