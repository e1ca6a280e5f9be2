"""Formats a saved episode as text: what each agent wrote, the verdict on it, and the result.

castaway episode data/marooned/evaluate/final/1015000000.jsonl

A task's snapshot may hold anything under any key. What has the shape that a shipped task gives it is put into words,
news of another shape is shown as JSON, and the rest is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from castaway.datasets.episodes import Row


def episode_text(rows: Sequence[Row]) -> str:
    """The text of a whole episode."""
    head, *moments = rows
    end = f"{'success' if head.get('success') else 'failure'}, {clean(head.get('ending', ''))}"
    lines = [f"Episode {head['task_id']}, played by the model: {head.get('seat', '')}", ""]
    for moment, following in pairwise(moments):
        lines += [title(moment), *happenings(moment, following), ""]
    return "\n".join([*lines, f"The end: {end}."])


def title(moment: Row) -> str:
    """The heading of a moment: `Day 1, turn 2`, or `Next` if the task has neither days nor turns."""
    return clean(", ".join(f"{name} {moment[name]}" for name in in_heading(moment))).capitalize() or "Next"


def in_heading(moment: Row) -> list[str]:
    """Which of the keys `day` and `turn` stand in the heading of a moment."""
    return [name for name in ("day", "turn") if isinstance(moment.get(name), str | int | float)]


def happenings(moment: Row, following: Row) -> Iterator[str]:
    """Lines about what all agents did in one moment, and what was new in the following one."""
    said = moment["said"]
    done = _mapping(following.get("actions"))
    for agent in [*said, *(agent for agent in done if agent not in said)]:
        yield from _question(moment, agent)
        if agent in said:
            yield from _reply(agent, role_of(moment, agent), said[agent])
        else:
            yield f"  {agent}{role_of(moment, agent)} by script: {_plain(done[agent])}"
    for name, line_of in (("clues", _clue), ("messages", _message)):
        for entry in _list(following.get(name))[len(_list(moment.get(name))) :]:
            yield f"  * {line_of(entry)}"
    ship = _mapping(following.get("ship"))
    if ship and ship != moment.get("ship") and all(isinstance(points, int | float) for points in ship.values()):
        yield f"  * The ship: {', '.join(f'{part} {points} %' for part, points in ship.items())}."


def role_of(moment: Row, agent: str) -> str:
    """The agent's role in parentheses; empty if the moment does not contain it."""
    role = _mapping(_mapping(moment.get("sailors")).get(agent)).get("role")
    return f" ({role})" if isinstance(role, str) and role else ""


def _question(moment: Row, agent: str) -> Iterator[str]:
    """Lines with the question that the agent answers and what is known about it, if the moment contains one."""
    question = _mapping(_mapping(moment.get("questions")).get(agent))
    if all(isinstance(question.get(name), str) for name in ("asked", "kind", "fact")):
        yield f"  {agent} is asked: {clean(question['asked'])} ? ({clean(question['kind'])})"
        yield f"      known: {clean(question['fact'])}"


def _reply(agent: str, role: str, said: Row) -> Iterator[str]:
    """Lines with a model's reply and the verdict on it."""
    first, *others = clean(said.get("text", "")).split("\n")
    yield f"  {agent}{role}: {first}"
    yield from (f"      {line}" for line in others)
    critique = f" {clean(said['critique'])}" if said.get("critique") else ""
    penalty = f" Penalty {said['penalty']:g}." if said.get("penalty") else ""
    if said.get("valid"):
        yield f"      -> valid.{critique}{penalty}"
    else:
        yield f"      -> not valid.{critique}{penalty} Executed: {clean(said.get('action', ''))}"


def _clue(entry: Any) -> str:
    return _plain(_mapping(entry).get("text", entry))


def _message(entry: Any) -> str:
    if isinstance(entry, Mapping) and {"speaker", "text"} <= entry.keys():
        return f"{_plain(entry['speaker'])} says: {_plain(entry['text'])}"
    return _plain(entry)


def _mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def _plain(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def clean(text: str) -> str:
    """The text with control characters escaped, as text of a model could contain commands to the terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else f"\\u{ord(letter):04x}" for letter in text)
