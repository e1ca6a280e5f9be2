"""Dataclasses as JSON lines: one object per line, keys in alphabetical order, so that equal rows give equal bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

Item = TypeVar("Item")


def write_rows(path: Path, rows: Iterable[Any]) -> None:
    """Write dataclass instances, one per line."""
    lines = [json.dumps(asdict(row), sort_keys=True, ensure_ascii=False) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def read_rows(path: Path, make: Callable[..., Item]) -> list[Item]:
    """Read rows that `write_rows` wrote; `make` is their dataclass, which must have a tuple field `messages`."""
    # Not `splitlines`, which also breaks at characters that JSON does not escape here, such as U+2028.
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    return [make(**{**row, "messages": tuple(row["messages"])}) for row in rows]
