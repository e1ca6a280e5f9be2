"""Checkpoints are whole or not at all."""

from pathlib import Path

import torch

from castaway.rl.checkpoint import load_newest, save_checkpoint


def test_the_newest_counts_and_two_are_kept(tmp_path: Path) -> None:
    assert load_newest(tmp_path / "none") is None
    for step in (1, 2, 10):
        save_checkpoint(tmp_path, step, {"step": step, "weight": torch.full((3,), float(step))})
    newest = load_newest(tmp_path)
    assert newest is not None and newest["step"] == 10 and newest["weight"].tolist() == [10.0] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-000002.pt", "step-000002.sha256", "step-000010.pt", "step-000010.sha256"
    ]  # fmt: skip


def test_a_damaged_one_is_passed_over(tmp_path: Path) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, step, {"step": step})
    newest = tmp_path / "step-000002.pt"
    whole = newest.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        newest.write_bytes(damaged)
        assert load_newest(tmp_path) == {"step": 1}
    newest.write_bytes(whole)
    (tmp_path / "step-000002.sha256").unlink()
    assert load_newest(tmp_path) == {"step": 1}
    (tmp_path / "step-000001.pt").write_bytes(b"")
    assert load_newest(tmp_path) is None


def test_a_crash_while_writing_leaves_the_older_one(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, {"step": 1})
    (tmp_path / "step-000002.tmp").write_bytes(b"half")
    (tmp_path / "step-000002.sha256").write_text("0" * 64)
    assert load_newest(tmp_path) == {"step": 1}
    save_checkpoint(tmp_path, 2, {"step": 2})
    assert load_newest(tmp_path) == {"step": 2}
    assert not list(tmp_path.glob("*.tmp"))
