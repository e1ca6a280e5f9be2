"""What the teacher corrected and disputed in PPO, by kind."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castaway.metrics.cells import figure, from_file
from castaway.tools.transcript import clean

KINDS = 12
"""Kinds of corrections that are shown, the most frequent first."""
LONGEST = 3_000
"""Characters of an example's text that are shown."""
PARTICULAR = re.compile(r"""(?<!\w)'[^']*'|"[^"]*"|\S*\d\S*""")
"""What differs between two critiques of one kind: what they quote, and what has a number in it, as squares have."""


@dataclass(frozen=True)
class Corrected:
    """One kind of correction, with its first example."""

    kind: str
    """The critique, with three dots for what is particular to a reply."""
    count: int
    penalty: float
    """The mean."""
    wrong: str
    target: str


@dataclass(frozen=True)
class Disputed:
    """One kind of dispute between a served teacher and the rules, with a few examples."""

    kind: str
    count: int
    examples: Sequence[Mapping[str, str]]
    """What the student was shown (`situation`), what it wrote (`text`), and what `model` and `rules` said."""


def corrections_of(path: Path) -> tuple[list[Corrected], int]:
    """The most frequent kinds, and the number of all other corrections.

    Args:
        path: `corrections.jsonl` of PPO; without it there are none, as in a clone without the data.
    """
    try:
        rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    except OSError:
        return [], 0
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(PARTICULAR.sub("\N{HORIZONTAL ELLIPSIS}", str(row.get("critique", ""))), []).append(row)
    often = sorted(kinds.items(), key=lambda item: -len(item[1]))
    shown = [_corrected(kind, of_kind) for kind, of_kind in often[:KINDS]]
    return shown, len(rows) - sum(one.count for one in shown)


def _corrected(kind: str, rows: Sequence[Mapping[str, Any]]) -> Corrected:
    penalty = sum(float(row.get("penalty", 0)) for row in rows) / len(rows)
    wrong, target = (cut(str(rows[0].get(name, ""))) for name in ("wrong", "target"))
    return Corrected(kind, len(rows), penalty, wrong, target)


def disputes_of(path: Path) -> tuple[dict[str, int], list[Disputed]]:
    """Who judged how many replies, and what was disputed, the most frequent kind first.

    Args:
        path: `agreement.json` of PPO; without it there is nothing.

    Raises:
        CastawayError: the file is not what PPO writes.
    """
    return from_file(path, _disputes) if path.is_file() else ({}, [])


def _disputes(found: Mapping[str, Any]) -> tuple[dict[str, int], list[Disputed]]:
    kinds = [
        Disputed(kind, int(figure(one, "count")), [_example(each) for each in figure(one, "examples")])
        for kind, one in figure(found, "disputes").items()
    ]
    return dict(figure(found, "judged_by")), sorted(kinds, key=lambda one: -one.count)


def _example(one: Mapping[str, Any]) -> dict[str, str]:
    said = {name: _opinion(figure(one, name)) for name in ("model", "rules")}
    return {**{name: cut(str(figure(one, name))) for name in ("situation", "text")}, **said}


def _opinion(one: Mapping[str, Any]) -> str:
    valid = "valid" if figure(one, "valid") else "not valid"
    action, remark = figure(one, "action"), figure(one, "remark")
    return cut(f"{valid}, penalty {figure(one, 'penalty'):g}, executes {action}. {remark}")


def cut(text: str) -> str:
    """The text without control characters, and not too long for a page."""
    shown = clean(text)
    return f"{shown[:LONGEST]} ..." if len(shown) > LONGEST else shown
