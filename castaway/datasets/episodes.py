"""A saved episode as `evaluate` leaves it: JSON lines, a head, then the moments with what was said in each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from castaway.errors import CastawayError
from castaway.tasks.environment import Outcome

Row = Mapping[str, Any]


def read_episode(path: Path) -> list[Row]:
    """The rows of a saved episode.

    Raises:
        CastawayError: the file is not a saved episode; the line says where.
    """
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise CastawayError(f"{path} cannot be read: {reason}") from None
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or ("said" if number > 1 else "task_id") not in row:
            raise CastawayError(f"{path} is not a saved episode: line {number} holds {line[:40]!r}")
        rows.append(row)
    return rows


def write_episode(path: Path, task_id: int, seat: str, outcome: Outcome, moments: Sequence[Row]) -> None:
    """Save a whole episode as `read_episode` reads it.

    Raises:
        CastawayError: the file cannot be written.
    """
    head = {"task_id": task_id, "seat": seat, "success": outcome.success, "ending": outcome.ending}
    lines = [json.dumps(row, sort_keys=True, ensure_ascii=False) for row in [head, *moments]]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    except OSError as error:
        raise CastawayError(f"{path} cannot be written: {error.strerror}") from None
