"""Reads and writes the episodes that `evaluate` saves.

The format is JSON lines: a header, then one line for each turn with the replies in it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from castaway.config.errors import CastawayError
from castaway.tasks.environment import Outcome

Row = Mapping[str, Any]


def read_episode(path: Path) -> list[Row]:
    """The rows of a saved episode: the header, then the turns.

    Raises:
        CastawayError: the file is not a saved episode; the message names the first wrong line.
    """
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise CastawayError(f"{path} cannot be read: {reason}") from None
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        # The header has the key `task_id`, each turn the key `said` with its replies.
        if not isinstance(row, dict) or ("said" if number > 1 else "task_id") not in row:
            raise CastawayError(f"{path} is not a saved episode: line {number} holds {line[:40]!r}")
        rows.append(row)
    return rows


def write_episode(path: Path, task_id: int, seat: str, outcome: Outcome, moments: Sequence[Row]) -> None:
    """Save a whole episode in the format that `read_episode` reads.

    Raises:
        CastawayError: the file cannot be written.
    """
    header = {"task_id": task_id, "seat": seat, "success": outcome.success, "ending": outcome.ending}
    lines = [json.dumps(row, sort_keys=True, ensure_ascii=False) for row in [header, *moments]]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    except OSError as error:
        raise CastawayError(f"{path} cannot be written: {error.strerror}") from None
