"""Checkpoints of a PPO run: a file is complete or is ignored, and the newest complete one counts.

They hold tensors and plain data only, so that they can travel between machines: reading one runs no code of the file.
"""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy
import torch
from torch.serialization import safe_globals

from castaway.errors import CastawayError
from castaway.rl.continuing import Batch
from castaway.rl.corrections import Correction
from castaway.rl.trajectory import Episode, Trajectory, Turn
from castaway.tasks.environment import Outcome
from castaway.tasks.reply import Reply
from castaway.teacher.agreement import Agreement
from castaway.teacher.base import Dispute, Opinion

KEPT = 2
"""How many of the newest checkpoints are kept."""

RECORDS: list[Any] = [Agreement, Batch, Correction, Dispute, Episode, Opinion, Outcome, Reply, Trajectory, Turn]
"""What a checkpoint may hold beside tensors, numbers, texts, and lists and mappings of them: plain records."""


def save_checkpoint(folder: Path, step: int, state: dict[str, Any]) -> None:
    """Write the state of `step`; a crash at any moment leaves the older checkpoints as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:06d}.pt"
    torch.save(state, path.with_suffix(".tmp"))
    digest = hashlib.sha256(path.with_suffix(".tmp").read_bytes()).hexdigest()
    # The bytes have to be on the disk before the file gets its name, and the checksum before that.
    with path.with_suffix(".tmp").open("rb+") as file:
        os.fsync(file.fileno())
    path.with_suffix(".sha256").write_text(digest, "utf-8")
    os.replace(path.with_suffix(".tmp"), path)
    for old in sorted(folder.glob("step-*.pt"))[:-KEPT]:
        old.unlink()
        old.with_suffix(".sha256").unlink(missing_ok=True)


def load_newest(folder: Path) -> dict[str, Any] | None:
    """The state of the newest checkpoint whose checksum holds, or None if there is none."""
    for path in sorted(folder.glob("step-*.pt"), reverse=True):
        seal = path.with_suffix(".sha256")
        if seal.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == seal.read_text("utf-8"):
            return _read(path)
    return None


def _read(path: Path) -> dict[str, Any]:
    """The state in a file; no code of the file is run, wherever it came from.

    Raises:
        CastawayError: the file holds something other than tensors and plain records.
    """
    try:
        with safe_globals(RECORDS):
            state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    except UnpicklingError as error:
        reason = str(error).splitlines()[-1].strip()
        raise CastawayError(
            f"{path} is no checkpoint of Castaway ({reason}); remove it to train from the start"
        ) from None
    return state


def random_states() -> dict[str, Any]:
    """The states of all global generators: Python's, NumPy's, torch's, and those of the GPUs."""
    return {
        "python": random.getstate(),
        "numpy": _plain(numpy.random.get_state()),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _plain(state: Any) -> tuple[Any, ...]:
    """NumPy's state with its words as a list, which `set_state` takes as well."""
    name, words, *rest = state
    return name, words.tolist(), *rest


def set_random_states(states: dict[str, Any]) -> None:
    """Set the global generators to what `random_states` returned."""
    random.setstate(states["python"])
    numpy.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
