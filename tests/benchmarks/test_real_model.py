"""The table of a real model, of a random one here."""

from pathlib import Path

import pytest

from benchmarks.real_model import VLLM, WAYS, real_model_table, vllm
from tests.families import write_family


@pytest.mark.slow
def test_every_way_is_measured(tmp_path: Path) -> None:
    shown = real_model_table(write_family("llama", tmp_path, ["which way"] * 5), threads=1, count=2, rounds=1)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.split("\n")[4:] if "|" in line]
    assert [row[0] for row in rows] == [name for name, (way, _) in WAYS.items() if way is not vllm or VLLM.is_dir()]
    assert all(float(row[2].replace(",", "")) > 0 and float(row[4]) > 0.1 for row in rows)
    assert [row[3] for row in rows if "`generate`" in row[0] or "TRL" in row[0]] == ["1.00", "1.00"]
