"""The ledger keeps every asking, and says how fresh the ids of an evaluation were."""

from multiprocessing import get_context
from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.metrics import ledger


def asking(key: str, block: int = 4, asked: str = "2026-11-24T10:00:00+00:00") -> ledger.Asking:
    return ledger.Asking(block=block, seed=1, asked=asked, revision="abc", stage_key=key, weights={"data/a/sft": key})


def test_rows_are_kept_and_a_repeated_evaluation_adds_none(tmp_path: Path) -> None:
    path = tmp_path / "metrics" / ledger.FILE
    assert ledger.read(path) == []
    ledger.add(path, [asking("one")])
    before = path.read_bytes()
    ledger.add(path, [asking("one", asked="2026-11-25T10:00:00+00:00")])
    assert path.read_bytes() == before
    ledger.add(path, [asking("two", asked="2026-11-23T10:00:00+00:00")])
    assert [row["stage_key"] for row in ledger.read(path)] == ["two", "one"], "in the order in which they were asked"
    path.write_text("[]")
    with pytest.raises(CastawayError, match=r"ledger.json is no ledger; restore it"):
        ledger.read(path)


def add_one_by_one(path: Path, name: str) -> None:
    for number in range(50):
        ledger.add(path, [asking(f"{name} {number}")])


def test_no_row_is_lost_where_two_evaluations_end_at_once(tmp_path: Path) -> None:
    path = tmp_path / ledger.FILE
    beside = get_context("spawn").Process(target=add_one_by_one, args=(path, "beside"))
    beside.start()
    while beside.is_alive() and not path.exists():
        beside.join(0.001)
    add_one_by_one(path, "here")
    beside.join()
    assert beside.exitcode == 0 and len(ledger.read(path)) == 100


def test_the_sentence_counts_earlier_askings_of_the_same_block() -> None:
    rows = [asking("a", block=3), asking("b"), asking("c"), asking("d")]
    assert ledger.sentence(rows, "a") == "Block 3 of the held-out ids, first asking."
    assert ledger.sentence(rows, "b") == "Block 4 of the held-out ids, first asking."
    assert ledger.sentence(rows, "c") == "Block 4 of the held-out ids, asked once before."
    assert ledger.sentence(rows, "d") == "Block 4 of the held-out ids, asked 2 times before."
    assert ledger.sentence(rows, "e").startswith("The ledger does not say")


def test_weights_that_were_built_again_to_the_same_bytes_ask_nothing_new() -> None:
    first, again, other = asking("a"), asking("c"), asking("d")
    first["weights"], again["weights"], other["weights"] = {"sft": "1"}, {"sft": "1"}, {"sft": "2"}
    rows = [first, asking("b"), again, other]
    assert ledger.sentence(rows, "c") == "Block 4 of the held-out ids, first asking."
    assert ledger.sentence(rows, "d") == "Block 4 of the held-out ids, asked 3 times before."
