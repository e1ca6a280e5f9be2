"""Checkpoints are whole or not at all."""

import os
import random
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from castaway.config.errors import CastawayError
from castaway.rl.checkpoint import load_newest, random_states, save_checkpoint, set_random_states


def test_the_newest_counts_and_two_are_kept(tmp_path: Path) -> None:
    assert load_newest(tmp_path / "none") is None
    for step in (1, 2, 10):
        save_checkpoint(tmp_path, step, {"step": step, "weight": torch.full((3,), float(step))})
    newest = load_newest(tmp_path)
    assert newest is not None and newest["step"] == 10 and newest["weight"].tolist() == [10.0] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000002.pt", "step-000010.pt"]


def test_a_damaged_one_is_passed_over(tmp_path: Path) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, step, {"step": step})
    newest = tmp_path / "step-000002.pt"
    whole = newest.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        newest.write_bytes(damaged)
        assert load_newest(tmp_path) == {"step": 1}
    (tmp_path / "step-000001.pt").write_bytes(b"")
    assert load_newest(tmp_path) is None


def test_a_crash_while_a_step_is_saved_again_leaves_it_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, 1, {"step": 1})

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(os, name, killed)
            save_checkpoint(tmp_path, 1, {"step": "other"})
        assert load_newest(tmp_path) == {"step": 1}


def test_random_states_come_back(tmp_path: Path) -> None:
    random.seed(3), numpy.random.seed(3), torch.manual_seed(3)
    save_checkpoint(tmp_path, 1, random_states())
    drawn = random.random(), numpy.random.random(), torch.rand(2).tolist()
    set_random_states(load_newest(tmp_path) or {})
    assert (random.random(), numpy.random.random(), torch.rand(2).tolist()) == drawn


class Intruder:
    """Something that would run a command when a pickle of it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch intruder",)


def test_no_code_of_a_file_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tmp_path, 1, {"step": Intruder()})
    with pytest.raises(CastawayError, match=r"is no checkpoint of Castaway .*remove it to train from the start"):
        load_newest(tmp_path)
    assert not (tmp_path / "intruder").exists()
