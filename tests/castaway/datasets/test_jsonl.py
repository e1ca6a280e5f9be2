"""Rows with declared columns on disk."""

from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.datasets.jsonl import DEMONSTRATIONS, PAIRS, demonstration, pair, read_rows, write_rows

MESSAGES = [{"role": "user", "content": "a\u2028b\x85c\n\u00e4 1/2"}]


def test_rows_come_back_from_disk_whatever_characters_they_hold(tmp_path: Path) -> None:
    pairs, shown = [pair(MESSAGES, "WAIT", "SAY \u2029")] * 2, [demonstration(MESSAGES, "x\x0by", "colonist")]
    write_rows(tmp_path / "pairs.jsonl", pairs, PAIRS)
    write_rows(tmp_path / "demonstrations.jsonl", shown, DEMONSTRATIONS)
    assert read_rows(tmp_path / "pairs.jsonl", PAIRS).to_list() == pairs
    assert read_rows(tmp_path / "demonstrations.jsonl", DEMONSTRATIONS).to_list() == shown


def test_no_rows_are_a_data_set_too(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", [], PAIRS)
    assert (tmp_path / "pairs.jsonl").read_bytes() == b""
    assert read_rows(tmp_path / "pairs.jsonl", PAIRS).features == PAIRS


def test_reading_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    write_rows(tmp_path / "pairs.jsonl", [pair(MESSAGES, "WAIT", "EAT")], PAIRS)
    rows = read_rows(tmp_path / "pairs.jsonl", PAIRS)
    assert rows.cache_files == [] and [path.name for path in tmp_path.iterdir()] == ["pairs.jsonl"]


def test_a_missing_file_and_one_of_another_kind_are_told(tmp_path: Path) -> None:
    with pytest.raises(CastawayError, match="does not exist; `dvc repro` builds it"):
        read_rows(tmp_path / "pairs.jsonl", PAIRS)
    write_rows(tmp_path / "pairs.jsonl", [demonstration(MESSAGES, "WAIT", "colonist")], DEMONSTRATIONS)
    with pytest.raises(CastawayError, match="has not the columns prompt, chosen, rejected"):
        read_rows(tmp_path / "pairs.jsonl", PAIRS)
