"""The ledger of a run: which block of held-out ids was asked when, by which commit and weights.

`data/RUN/metrics/ledger.json` is in git and no output of DVC: it grows, and no rebuild or restored output may take away
a row. An evaluation that is made again from the same inputs asks nothing new, so it adds no row.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from castaway.config.errors import CastawayError

FILE = "ledger.json"


class Asking(TypedDict):
    """One evaluation on held-out ids."""

    block: int
    """The block that was played, with the seed taken into account (`castaway.tasks.environment.held_out_block`)."""
    seed: int
    asked: str  # when the evaluation began, in ISO 8601, UTC
    revision: str  # the commit that it ran with
    stage_key: str  # the hash of its inputs; two evaluations with the same key give the same answers
    weights: dict[str, str]
    """The hashes of the folders with the weights that were asked, by path; empty for evaluations before the ledger."""


def read(path: Path) -> list[Asking]:
    """The rows of a ledger, oldest first; none if there is no such file."""
    if not path.is_file():
        return []
    try:
        rows: list[Asking] = json.loads(path.read_text("utf-8"))["asked"]
        return sorted(rows, key=lambda row: (row["asked"], row["stage_key"]))
    except (ValueError, KeyError, TypeError):
        raise CastawayError(f"{path} is no ledger; restore it with `git checkout -- {path}`") from None


def add(path: Path, rows: Iterable[Asking]) -> None:
    """Add rows to a ledger; those of a block and stage key that it has already are left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path.parent):
        known = {(row["block"], row["stage_key"]): row for row in read(path)}
        for row in rows:
            known.setdefault((row["block"], row["stage_key"]), row)
        merged = sorted(known.values(), key=lambda row: (row["asked"], row["stage_key"]))
        # Replaced as a whole: a process that dies here leaves the old ledger.
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps({"asked": merged}, indent=2, sort_keys=True) + "\n", "utf-8")
        draft.replace(path)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Context in which no other process of this machine writes here: experiments may end at the same time.

    What is locked is the folder. The ledger is a new file each time, and a file for the lock would be one more in git.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def sentence(rows: list[Asking], stage_key: str) -> str:
    """How fresh the ids of an evaluation were; one of the same weights, built anew, counts as the earlier one."""
    mine = next((number for number, row in enumerate(rows) if row["stage_key"] == stage_key), None)
    if mine is None:
        return "The ledger does not say which block of held-out ids this evaluation asked."
    block, weights = rows[mine]["block"], rows[mine]["weights"]
    if weights:
        mine = [(row["block"], row["weights"]) for row in rows].index((block, weights))
    before = sum(row["block"] == block for row in rows[:mine])
    times = "first asking" if not before else "asked once before" if before == 1 else f"asked {before} times before"
    return f"Block {block} of the held-out ids, {times}."
