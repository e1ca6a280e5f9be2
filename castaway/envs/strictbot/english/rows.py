"""Reads the rows of a bank in English: blocks of lines, each with fields and, in a field, alternatives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar
from zlib import crc32

from castaway.envs.strictbot.bank import read as read_bank

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Row:
    """A subject of a topic, with its value."""

    subject: str
    """What fills the places of a template; ` | ` separates several."""
    value: str
    others: tuple[str, ...] = ()
    """Wrong values that people take for the right one; if there are none, those of the other subjects."""


MOST_ROWS, MOST_FILLINGS = 40, 24
"""Largest number of subjects of a table and of a family with fillers, so that no family dominates."""


def read(name: str) -> Any:
    """Read a file of the folder `bank/english`."""
    return read_bank(f"english/{name}")


def lines(block: str) -> list[str]:
    """The lines of a block; one that begins with `=` continues the one before."""
    return re.sub(r"\n\s*=", " =", block.strip()).split("\n")


def fields(line: str) -> tuple[list[str], list[str]]:
    """The alternatives left and right of the `=` in a line, each separated by `;`."""
    left, _, right = line.partition(" = ")
    return alternatives(left), alternatives(right)


def alternatives(text: str) -> list[str]:
    """The parts of a text, which are separated by `;`."""
    return [part.strip() for part in text.split(";")]


def fillings(blocks: Sequence[str]) -> list[list[str]]:
    """The fillers of templates: each line of the first block with each of the next, their fields one after another."""
    rows = [[field for line in chosen for field in alternatives(line)] for chosen in product(*map(lines, blocks))]
    return some(rows, MOST_FILLINGS)


def some(rows: Sequence[Item], most: int) -> list[Item]:
    """At most `most` of the rows, selected by their checksums: a stable choice in a mixed order."""
    return sorted(rows, key=lambda row: crc32(str(row).encode()))[:most]
