"""Checkpoints of a PPO run: a file is complete or is ignored, and the newest complete one counts.

They hold tensors and plain data only, so that they can travel between machines: reading one runs no code of the file.
"""

import hashlib
import os
import random
from io import BytesIO
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy
import torch
from torch.serialization import safe_globals

from castaway.config.errors import CastawayError
from castaway.rl.rollouts import Batch
from castaway.rollout.trajectory import Episode, Trajectory, Turn
from castaway.tasks.environment import Outcome
from castaway.tasks.reply import Reply
from castaway.tasks.verdict import Dispute, Opinion
from castaway.teacher.agreement import Agreement

SEAL = hashlib.sha256().digest_size
"""Bytes of the checksum at the end of a checkpoint."""
KEPT = 2
"""How many of the newest checkpoints are kept."""

RECORDS: list[Any] = [Agreement, Batch, Dispute, Episode, Opinion, Outcome, Reply, Trajectory, Turn]
"""What a checkpoint may hold besides tensors, numbers, texts, and lists and mappings of them: plain records."""


def save_checkpoint(folder: Path, step: int, state: dict[str, Any]) -> None:
    """Write the state of `step`; a crash at any moment leaves the older checkpoints as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:06d}.pt"
    draft = path.with_suffix(".tmp")
    torch.save(state, draft)
    # The checksum is in the file itself: with one of its own, saving a step again and dying between the two would leave
    # a checkpoint next to the checksum of another.
    seal = hashlib.sha256(draft.read_bytes()).digest()
    with draft.open("ab") as file:
        file.write(seal)
        file.flush()
        # The bytes have to be on the disk before the file gets its name.
        os.fsync(file.fileno())
    os.replace(draft, path)
    for old in sorted(folder.glob("step-*.pt"))[:-KEPT]:
        old.unlink()


def load_newest(folder: Path) -> dict[str, Any] | None:
    """The state of the newest checkpoint whose checksum holds, or None if there is none."""
    for path in sorted(folder.glob("step-*.pt"), reverse=True):
        content = path.read_bytes()
        saved, seal = content[:-SEAL], content[-SEAL:]
        if hashlib.sha256(saved).digest() == seal:
            return _read(path, saved)
    return None


def _read(path: Path, saved: bytes) -> dict[str, Any]:
    """The state in the bytes of a file without its checksum; CastawayError if it holds more than plain records."""
    try:
        with safe_globals(RECORDS):
            state: dict[str, Any] = torch.load(BytesIO(saved), weights_only=True, map_location="cpu")
    except UnpicklingError as error:
        reason = str(error).splitlines()[-1].strip()
        raise CastawayError(
            f"{path} is no checkpoint of Castaway ({reason}); remove it to train from the start"
        ) from None
    return state


def random_states() -> dict[str, Any]:
    """The states of all global generators: Python's, NumPy's, torch's, and those of the GPUs."""
    legacy: Any = numpy.random.get_state()
    name, words, *rest = legacy
    return {
        "python": random.getstate(),
        "numpy": (name, words.tolist(), *rest),  # a list, which `set_state` takes as well
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_states(states: dict[str, Any]) -> None:
    """Set the global generators to what `random_states` returned."""
    random.setstate(states["python"])
    numpy.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
