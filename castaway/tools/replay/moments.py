"""What a replay shows of each moment of a saved episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from castaway.datasets.episodes import Row
from castaway.tools.transcript import clean, happenings, in_heading, title

ITEMS = 60
"""Entries of a list that are shown at most."""
LONGEST = 20_000
"""Characters of one moment that are shown, so that a page stays small."""


@dataclass(frozen=True)
class Moment:
    """One moment."""

    title: str
    state: str
    """The task's own picture of it: the values of its snapshot that are text, numbers, or lists of these."""
    happened: str
    """What was asked, replied and executed."""
    valid: bool
    """Whether each reply in it was a legal action."""


@dataclass(frozen=True)
class Replay:
    """A whole episode."""

    heading: str
    success: bool
    moments: Sequence[Moment]


def replay_of(rows: Sequence[Row]) -> Replay:
    """The replay of an episode in the form that `castaway.datasets.episodes.read_episode` returns."""
    head, *moments = rows
    success = bool(head.get("success"))
    heading = f"Episode {head['task_id']}, played by the model: {head.get('seat', '')}"
    shown = [_moment(moment, following) for moment, following in pairwise(moments)]
    end = f"{'success' if success else 'failure'}, {clean(str(head.get('ending', '')))}"
    last = "\n".join(_state(moments[-1])) if moments else ""
    return Replay(heading, success, [*shown, Moment("The end", _cut(last), end, success)])


def _moment(moment: Row, following: Row) -> Moment:
    lines = "\n".join(line.removeprefix("  ") for line in happenings(moment, following))
    valid = all(bool(said.get("valid")) for said in moment["said"].values())
    return Moment(title(moment), _cut("\n".join(_state(moment))), _cut(lines), valid)


def _state(moment: Mapping[str, Any]) -> Iterator[str]:
    titled = in_heading(moment)
    for name, value in moment.items():
        if name in titled or value in ("", None):
            continue
        if isinstance(value, list) and all(isinstance(one, str | int | float) for one in value):
            value = ", ".join(map(str, [*value[:ITEMS], *(["..."] if len(value) > ITEMS else [])]))
        if isinstance(value, str | int | float):
            words = clean(str(value)).rstrip("\n")
            # A board has to begin at the beginning of a line.
            yield f"{name}:\n{words}" if "\n" in words else f"{name}: {words}"


def _cut(text: str) -> str:
    return f"{text[:LONGEST]}\n[the rest is in the file]" if len(text) > LONGEST else text
